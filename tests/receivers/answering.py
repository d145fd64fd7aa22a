"""Behaviours that keep to the protocol: they answer, though not always what one would like to hear."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from tests.receivers.asked import Request
from tests.receivers.caller import Caller


async def ok(caller: Caller, _: Request) -> None:
    await caller.answer(body=b"ok")


async def status(caller: Caller, request: Request) -> None:
    """``/status/503?retry-after=7``, or ``retry-date=7`` for the HTTP date in 7 s; ``body=…`` for what it says."""
    asks = {}
    if after := request.text("retry-after"):
        asks["retry-after"] = after
    if later := request.text("retry-date"):
        asks["retry-after"] = format_datetime(datetime.now(UTC) + timedelta(seconds=float(later)), usegmt=True)
    body = request.text("body", f"{request.detail} is my answer").encode()
    await caller.answer(request.detail, body, asks)


async def redirect(caller: Caller, request: Request) -> None:
    """``/redirect/302?to=http://…``"""
    await caller.answer(request.detail, headers={"location": request.text("to")})


async def delay(caller: Caller, request: Request) -> None:
    """``/delay?seconds=0.2``"""
    await asyncio.sleep(request.number("seconds", 0.1))
    await caller.answer(request.status)


async def flaky(caller: Caller, request: Request) -> None:
    """``/flaky?fail=2``: each webhook-id fails so often, then succeeds."""
    fails = caller.record.attempts(request) <= request.number("fail", 1)
    await caller.answer(request.text("status", "503") if fails else "200")


async def set_cookie(caller: Caller, _: Request) -> None:
    await caller.answer(headers={"set-cookie": "session=stolen; Path=/"})


async def echo(caller: Caller, _: Request) -> None:
    request = caller.record.requests[-1]  # with its body
    told = {
        "method": request.method,
        "path": request.target,
        "headers": request.headers,
        "body": (request.body or b"").decode(errors="replace"),
    }
    await caller.answer(body=json.dumps(told).encode(), headers={"content-type": "application/json"})


async def go_on(caller: Caller, request: Request) -> None:
    """``/100-continue?every=0.05&times=3``: interim answers, so many or for ever, before the final one."""
    times = request.number("times", float("inf"))
    while times > 0:
        await caller.say(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(request.number("every", 0.05))
        times -= 1
    await caller.answer(request.status)


async def early(caller: Caller, request: Request) -> None:
    """``/early/413``: answers when the head has arrived, and does not read the body."""
    caller.stop_reading()
    await caller.answer(request.detail, b"too early")
    await asyncio.Event().wait()


WHOLE = {
    "ok": ok,
    "status": status,
    "redirect": redirect,
    "delay": delay,
    "flaky": flaky,
    "set-cookie": set_cookie,
    "echo": echo,
    "100-continue": go_on,
}
HEAD = {"early": early}
