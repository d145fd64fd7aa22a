"""Attacks of one tenant on the others over HTTP.

python -m benchmarks.attacks previews http://127.0.0.1:8080 duly_…

Runs until it is terminated. Each attack is a few loops that send the next request as soon as the last is answered, also
when it was refused: a server that refuses does well.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import aiohttp

AT_ONCE = 4  # loops of each attack
SOCKETS = 400  # open connections of the attack "sockets"
PAUSE = 0.01  # seconds between two requests of one loop
LARGE_EVENTS = 20  # events of nearly a megabyte each

MANY = ",".join(str(number) for number in range(1, 366))
HEAVY = (
    {"rrule": f"FREQ=SECONDLY;BYMONTHDAY=29;BYSETPOS={MANY}"},
    {"rrule": "FREQ=MONTHLY;BYMONTH=2;BYDAY=SU;BYSETPOS=366"},
    {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU;INTERVAL=7"},
    {"rrule": "FREQ=DAILY;INTERVAL=997;BYDAY=MO;BYMONTHDAY=13"},
)

Ask = Callable[..., Awaitable[None]]


async def rules(ask: Ask, number: int) -> None:
    """Puts schedules whose rules take long to evaluate."""
    for place, rule in enumerate(HEAVY):
        await ask("PUT", f"/v1/schedules/heavy-{number}-{place}", {"type": "bench", "rule": rule})


async def previews(ask: Ask, number: int) -> None:
    rule = HEAVY[number % len(HEAVY)]
    await ask("POST", "/v1/schedules/preview", {"rule": rule, "count": 1000})


async def pages(ask: Ask, _number: int) -> None:
    await ask("GET", "/v1/events?limit=1000")


async def keys(ask: Ask, _number: int) -> None:
    """Guesses API keys, 25 at once."""
    await asyncio.gather(*(ask("GET", "/v1/events", key=f"duly_{secrets.token_urlsafe(32)}") for _ in range(25)))


LOOPS: dict[str, Callable[[Ask, int], Awaitable[None]]] = {
    "rules": rules,
    "previews": previews,
    "pages": pages,
    "keys": keys,
}


async def sockets(address: str) -> None:
    """Opens connections without sending anything, and replaces a quarter of them every second."""
    parts, held = urlsplit(address), list[socket.socket]()
    loop = asyncio.get_running_loop()
    while True:
        while len(held) < SOCKETS:
            one = socket.socket()
            one.setblocking(False)
            with contextlib.suppress(OSError):
                await loop.sock_connect(one, (parts.hostname, parts.port))
            held.append(one)
        await asyncio.sleep(1)
        for one in held[: SOCKETS // 4]:
            one.close()
        del held[: SOCKETS // 4]


async def attack(names: list[str], address: str, secret: str) -> None:
    connector = aiohttp.TCPConnector(limit=200)
    async with aiohttp.ClientSession(address, connector=connector) as session, asyncio.TaskGroup() as group:

        async def ask(method: str, path: str, body: object = None, key: str = secret) -> None:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.request(
                    method, path, json=body, headers={"Authorization": f"Bearer {key}"}
                ) as answer:
                    await answer.read()

        if "pages" in names:
            for number in range(LARGE_EVENTS):
                body = {"type": "bench", "after": "1d", "payload": "x" * 1_000_000}
                await ask("PUT", f"/v1/timers/large-{number}", body)
        for name in names:
            if name == "sockets":
                group.create_task(sockets(address))
            for number in range(AT_ONCE if name in LOOPS else 0):
                group.create_task(_again(LOOPS[name], ask, number))
        print("attacking", flush=True)


async def _again(loop: Callable[[Ask, int], Awaitable[None]], ask: Ask, number: int) -> None:
    while True:
        await loop(ask, number)
        await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    os.nice(19)  # on one machine, the attackers must not take CPU time that the server needs
    names, address, secret = sys.argv[1:]
    asyncio.run(attack(names.split(","), address, secret))
