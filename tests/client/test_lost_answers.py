"""Connections that fail, answers that are lost, servers that are busy: what is asked for happens once all the same."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from duly import Duly, NotFound, StoreUnavailable, Timer, every
from duly.api.protocol.problems import Uncertain, problem_of
from duly.client import Client, ServerError, ServerUnavailable
from duly.client.protocol import connection
from duly.errors import Misuse
from tests.client.serving import Between, answering, without_via
from tests.make import HOUR, START

ADA: dict[str, Any] = {
    "first_name": "Ada",
    "last_name": "Lovelace",
    "date_of_birth": "1990-12-10",
    "timezone": "Europe/London",
}
BUSY = answering("503 Service Unavailable")
UNCERTAIN = answering("503 Service Unavailable", msgspec.json.encode(problem_of(Uncertain()).body).decode())
TOO_MANY = answering("429 Too Many Requests", Retry_After="1")


def header(request: bytes, name: str) -> str | None:
    for line in request.partition(b"\r\n\r\n")[0].decode().split("\r\n"):
        if line.lower().startswith(f"{name.lower()}:"):
            return line.partition(":")[2].strip()
    return None


async def test_a_lost_answer_does_nothing_twice(app: Duly, far: Client, between: Between) -> None:
    between.plan = ["lose", "half"]
    event = await far.at(START + HOUR, "x")
    assert [one.id for one in await app.events.find()] == [event.id]
    keys = {header(request, "Idempotency-Key") for request in between.requests[:3]}
    assert len(keys) == 1
    assert None not in keys
    between.plan = ["lose"]
    ids = await far.add_many([Timer(START, "x"), Timer(START, "x", key="k")])
    assert len(await app.events.find()) == 3
    assert ids[1] == (await app.events.by_key("k")).id


async def test_a_delay_that_is_asked_for_again_is_not_counted_anew(
    app: Duly, far: Client, between: Between, clock: object
) -> None:
    between.plan = ["lose"]
    event = await far.after(HOUR, "x", key="k")
    assert (event.due, [entry.act for entry in await app.events.history(event.id)]) == (START + HOUR, [])


async def test_a_repeated_change_or_deletion_is_answered_as_if_no_answer_were_lost(
    app: Duly, far: Client, between: Between
) -> None:
    schedule = await far.every("hourly", every("1h"), "x")
    between.plan = ["lose"]
    changed = await far.schedules.put("hourly", every("2h"), "x", expected=schedule.tag)
    assert changed == without_via(await app.schedules.get("hourly"))
    between.plan = ["lose"]
    await far.schedules.trigger("hourly")
    assert len(await app.events.find()) == 2
    between.plan = ["lose"]
    assert await far.schedules.delete("hourly", expected=changed.tag) == 2
    user = await far.users.add(**ADA)
    between.plan = ["lose"]
    moved = await far.users.update(user.id, timezone="Asia/Tokyo", expected=user.tag)
    between.plan = ["lose"]
    assert await far.users.delete(user.id, expected=moved.tag) == moved
    between.plan = ["lose", "lose"]
    with pytest.raises(NotFound):
        await far.users.delete(user.id)


async def test_a_repeated_request_does_not_overwrite_what_another_has_changed_meanwhile(
    app: Duly, between: Between
) -> None:
    async with Client(between.url, timeout=120) as far:
        user = await far.users.add(**ADA)
        await far.every("report", every("1h"), "x")
        await far.at(START + HOUR, "x", key="k")
        await app.targets.put("shop", "https://hooks.example/duly")

        async def while_lost(mine: Coroutine[Any, Any, Any], others: Callable[[], Awaitable[Any]]) -> None:
            between.requests.clear()
            between.plan = ["lose", *[BUSY] * 1000]
            asking = asyncio.create_task(mine)
            while len(between.requests) < 2:  # noqa: ASYNC110 - the second comes when the first answer is lost
                await asyncio.sleep(0.01)
            await others()
            between.plan.clear()
            await asking

        await while_lost(
            far.users.update(user.id, first_name="Mine"), lambda: app.users.update(user.id, first_name="Theirs")
        )
        assert (await app.users.get(user.id)).first_name == "Theirs"
        await while_lost(
            far.schedules.put("report", every("2h"), "x"), lambda: app.schedules.put("report", every("3h"), "x")
        )
        assert (await app.schedules.get("report")).timetable.rule.to_json()["every"] == "3h"
        await while_lost(far.at(START + 2 * HOUR, "x", key="k"), lambda: app.at(START + 3 * HOUR, "x", key="k"))
        assert (await app.events.by_key("k")).due == START + 3 * HOUR
        await while_lost(far.targets.limit("shop", concurrency=2), lambda: app.targets.limit("shop", concurrency=3))
        assert (await app.targets.known("shop")).concurrency == 3


async def test_a_lost_answer_to_a_rotation_leaves_the_secret_known(far: Client, between: Between) -> None:
    await far.targets.put("shop", "https://hooks.example/duly")
    between.plan = ["lose"]
    rotated = await far.targets.rotate("shop")
    sent = between.requests[-1].decode()
    assert rotated.secret
    assert rotated.secret in sent
    assert header(between.requests[-1], "Idempotency-Key") is None, "or the server would have to keep the secret"


async def test_requests_to_busy_servers_and_on_cut_connections_are_repeated(
    app: Duly, far: Client, between: Between
) -> None:
    between.plan = ["cut", BUSY, answering("502 Bad Gateway", "<html>"), "pass"]
    await far.at(START + HOUR, "x", key="k")
    assert len(between.requests) == 4
    assert len({header(request, "X-Request-Id") for request in between.requests}) == 1
    between.plan = ["cut", BUSY]
    assert (await far.events.by_key("k")).type == "x"


async def test_a_client_waits_after_a_429_as_long_as_it_says(far: Client, between: Between) -> None:
    between.plan = [TOO_MANY]
    began = time.monotonic()
    await far.events.find()
    assert time.monotonic() - began >= 1


async def test_the_timeout_of_a_call_holds_for_all_attempts_together(app: Duly, between: Between) -> None:
    began = time.monotonic()
    async with Client(between.url, timeout=3) as client:
        between.plan = ["hang"]
        with pytest.raises(ServerUnavailable, match=r"no answer in time.*may have been carried out") as hanging:
            await client.at(START, "x")
        assert hanging.value.request_id == header(between.requests[0], "X-Request-Id")
    async with Client(between.url, timeout=0.5) as client:
        assert "answered 503" in await told_when_busy(client, between)
    async with Client(between.url, timeout=20) as client:
        between.plan = [answering("429 Too Many Requests", Retry_After="60")]
        with pytest.raises(ServerUnavailable, match=r"answered 429.* after 1 attempt"):
            await client.events.find()
    assert time.monotonic() - began < 30
    assert await app.events.find() == []


@pytest.mark.parametrize("first", ["lose", answering("504 Gateway Timeout", "<html>"), UNCERTAIN])
async def test_an_attempt_that_may_have_been_stored_is_told_whatever_the_last_one_says(
    between: Between, first: str | bytes
) -> None:
    async with Client(between.url, timeout=2) as client:
        told = await told_when_busy(client, between, first)
        assert "answered 503" in told
        assert "it may have been carried out" in told
        told = await told_when_busy(client, between)
        assert "answered 503" in told
        assert "may have been" not in told


async def told_when_busy(client: Client, between: Between, *first: str | bytes) -> str:
    """By a last attempt that was begun in time to be answered."""
    told = "no answer in time"
    for _ in range(10):
        if "no answer in time" in told:
            between.plan = [*first, *[BUSY] * 100]
            with pytest.raises(StoreUnavailable) as busy:
                await client.at(START, "x")
            told = str(busy.value)
    return told


async def test_a_server_that_does_not_listen_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST_RETRY_WAIT_S", 100.0)
    monkeypatch.setattr(connection, "LONGEST_RETRY_WAIT_S", 100.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with Client(f"http://127.0.0.1:{port}", timeout=20) as client:
        with pytest.raises(ServerUnavailable, match="no connection"):
            await client.events.find()


async def test_a_redirect_is_not_followed_with_the_key(between: Between) -> None:
    between.plan = [answering("307 Temporary Redirect", Location="http://elsewhere.example/v1/events")]
    async with Client(between.url, key="duly_secret") as client:
        with pytest.raises(Misuse, match=r"redirects to http://elsewhere\.example") as refused:
            await client.events.find()
    assert len(between.requests) == 1
    assert "duly_secret" not in f"{refused.value!r} {client!r} {vars(refused.value)}"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (answering("200 OK", "<html>hello"), "does not understand"),
        (answering("200 OK", '{"events": 5}'), "does not understand"),
        (answering("418 I'm a teapot", "short and stout"), "check the address"),
        (answering("500 Internal Server Error", '{"detail": "a bug"}'), "500: a bug"),
    ],
)
async def test_a_server_that_is_no_duly_is_told_at_once(
    far: Client, between: Between, answer: bytes, says: str
) -> None:
    between.plan = [answer]
    with pytest.raises(ServerError, match=says) as wrong:
        await far.events.find()
    assert wrong.value.request_id
    assert len(between.requests) == 1


async def test_a_call_that_is_cancelled_ends_at_once_and_leaves_the_client_whole(far: Client, between: Between) -> None:
    between.plan = ["hang"]
    call = asyncio.create_task(far.events.find())
    await between.asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await far.events.find() == []


async def test_many_calls_at_once_share_the_client(app: Duly, client: Client) -> None:
    events = await asyncio.gather(*(client.at(START, "x", n, key=str(n)) for n in range(100)))
    assert sorted(event.payload for event in events) == list(range(100))


async def test_a_client_uses_its_connections_again(client: Client) -> None:
    for _ in range(3):
        await client.events.find()
    session = client._connection._session
    assert session is not None
    assert session.connector is not None
    idle = [len(connections) for connections in session.connector._conns.values()]
    assert sum(idle) == 1
