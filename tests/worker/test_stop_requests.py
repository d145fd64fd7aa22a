"""Cancelling what runs: it is asked to stop, in whichever process it runs, and ends CANCELLED without a retry."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from duly import Delivered, Duly, Event, Failed, InStatus, Status, Timer, Transaction, every, webhook
from duly.signals import Cancelled, Claimed, Completed, DeadLettered, GivenBack, Retried
from tests.worker.running_worker import PATIENCE, Told, until, working

QUIET: dict[str, Any] = {"poll_interval": "60s", "lease": "10m"}
"""So that a worker learns of something only because it was woken."""

NOW, HOUR = timedelta(), timedelta(hours=1)


async def ended(duly: Duly, id: str) -> Event:
    """The event, once it does not run any more."""

    async def look() -> Event | None:
        event = await duly.events.get(id)
        return None if event.status is Status.PROCESSING else event

    event: Event = await until(look, "it has ended")
    return event


async def acts(duly: Duly, id: str) -> list[str]:
    return [entry.act for entry in await duly.events.history(id)]


async def test_an_async_handler_is_cancelled_and_its_event_ends_without_a_retry(url: str) -> None:
    duly = Duly(url, **QUIET)
    told, cleaned_up, seen = Told(duly), asyncio.Event(), list[bool]()

    @duly.on("long")
    async def long(event: Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append((await duly.events.get(event.id)).status is Status.PROCESSING)
            cleaned_up.set()

    @duly.on("quick")
    async def quick(_event: Event) -> None:
        async with asyncio.timeout(PATIENCE):
            await asyncio.sleep(0)

    async with duly, working(duly):
        event = await duly.after(NOW, "long", key="k")
        await until(lambda: told.of(Claimed), "it runs")
        assert await duly.cancel("k", by="ada", reason="not needed") == "running"
        after = await ended(duly, event.id)
        assert cleaned_up.is_set(), "it ends when its handler has"
        assert seen == [True]
        assert (after.status, after.ready, after.attempts) == (Status.CANCELLED, None, 0)
        assert await acts(duly, "k") == ["stop requested", "cancelled"]
        assert await duly.cancel("k") == "nothing"
        await duly.after(NOW, "quick")
        await until(lambda: told.of(Completed), "the runner goes on with other events")
    assert [signal.event.id for signal in told.of(Cancelled)] == [event.id]
    assert not told.of(Retried) + told.of(GivenBack)


async def test_a_thread_sees_that_it_should_stop(url: str) -> None:
    duly = Duly(url, **QUIET)
    running, rows = threading.Event(), list[int]()

    @duly.on("export")
    def export(event: Event) -> None:
        assert not event.stopping
        running.set()
        while not event.stopping:
            rows.append(1)

    async with duly, working(duly):
        event = await duly.after(NOW, "export")
        await until(running.is_set, "it runs")
        assert await duly.cancel(event.id) == "running"
        after = await ended(duly, event.id)
    assert (after.status, after.attempts) == (Status.CANCELLED, 0)
    assert rows


@pytest.mark.parametrize("returned", [None, Delivered(), Failed("503")])
async def test_a_handler_that_ends_by_itself_has_completed_or_is_not_retried(url: str, returned: Any) -> None:
    """It never looked, or it looked and says that it is done all the same."""
    duly = Duly(url, **QUIET)
    told, running, go_on = Told(duly), threading.Event(), threading.Event()

    @duly.on("export")
    def export(event: Event) -> Any:
        running.set()
        assert go_on.wait(PATIENCE)
        assert returned is None or event.stopping
        return returned

    async with duly, working(duly):
        event = await duly.after(NOW, "export")
        await until(running.is_set, "it runs")
        assert await duly.cancel(event.id) == "running"
        await asyncio.sleep(1)  # its worker has learned of it meanwhile, and can only tell the thread
        assert (await duly.events.get(event.id)).status is Status.PROCESSING
        go_on.set()
        after = await ended(duly, event.id)
        if isinstance(returned, Failed):
            assert (after.status, after.attempts, after.last_error) == (Status.CANCELLED, 1, "503")
            assert await acts(duly, event.id) == ["stop requested", "cancelled"]
        else:
            assert (after.status, after.attempts) == (Status.COMPLETED, 1)
            assert await acts(duly, event.id) == ["stop requested", "delivered"]
            assert await duly.cancel(event.id) == "fired"
    assert not told.of(DeadLettered)


async def test_a_transactional_handler_is_rolled_back(url: str) -> None:
    duly = Duly(url, **QUIET)
    told = Told(duly)

    @duly.on("close", transactional=True)
    async def close(event: Event, tx: Transaction) -> None:
        await duly.at(event.due, "left behind", transaction=tx)
        if duly.store.dialect == "sqlite":  # the only writer is taken: nobody could ask it to stop
            return
        await asyncio.Event().wait()

    async with duly, working(duly):
        event = await duly.after(NOW, "close")
        await until(lambda: told.of(Claimed), "it runs")
        if duly.store.dialect == "sqlite":
            assert (await ended(duly, event.id)).status is Status.COMPLETED
            return
        assert await duly.cancel(event.id) == "running"
        assert (await ended(duly, event.id)).status is Status.CANCELLED
        assert [one.id for one in await duly.events.find()] == [event.id]


@asynccontextmanager
async def silent_receiver() -> AsyncIterator[tuple[str, list[asyncio.StreamReader]]]:
    """The address of a server that accepts requests and never answers, and its open connections."""
    requests: list[asyncio.StreamReader] = []

    async def never_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        requests.append(reader)
        while await reader.read(1024):
            pass
        requests.remove(reader)
        writer.close()

    async with await asyncio.start_server(never_answers, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", requests


async def test_a_webhook_is_abandoned(url: str) -> None:
    duly = Duly(url, webhook_allow="127.0.0.0/8", secret_key="0123456789abcdef0123456789abcdef", **QUIET)
    async with silent_receiver() as (address, requests), duly, working(duly):
        event = await duly.after(NOW, "order", target=webhook(address))
        await until(lambda: requests, "the request was sent")
        assert await duly.cancel(event.id) == "running"
        assert (await ended(duly, event.id)).status is Status.CANCELLED
        await until(lambda: not requests, "the connection is closed")


async def test_what_is_claimed_and_not_started_is_cancelled(url: str) -> None:
    """Quick events make a worker claim ahead, and then come slow ones."""
    duly = Duly(url, concurrency=2, batch_size=20, **QUIET)
    go_on, started = asyncio.Event(), set[str]()

    @duly.on("task")
    async def task(event: Event) -> None:
        if event.payload == "slow":
            started.add(event.id)
            await go_on.wait()

    async with duly:
        await duly.add_many(Timer(-2 * HOUR, "task") for _ in range(100))
        slow = await duly.add_many(Timer(-HOUR, "task", "slow") for _ in range(20))

        async def unstarted() -> set[str]:
            claimed = await duly.events.find(InStatus(Status.PROCESSING), limit=1000)
            return {event.id for event in claimed if event.payload == "slow"} - started if len(started) == 2 else set()

        async with working(duly):
            [one, *_] = await until(unstarted, "more are claimed than can start")
            assert await duly.cancel(one) == "running"
            assert (await ended(duly, one)).status is Status.CANCELLED
            assert len(started) == 2
            go_on.set()
            for id in set(slow) - {one}:
                assert (await ended(duly, id)).status is not Status.CANCELLED
        assert [entry.act for entry in await duly.events.history(one)] == ["stop requested", "cancelled"]
    assert one not in started


async def test_another_process_can_ask_for_it(url: str) -> None:
    duly = Duly(url, **QUIET)
    told = Told(duly)

    @duly.on("long")
    async def long(_event: Event) -> None:
        await asyncio.Event().wait()

    async with duly, working(duly):
        event = await duly.after(NOW, "long", key="k")
        await until(lambda: told.of(Claimed), "it runs")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "duly", "cancel", "k", "--db", url, stdout=pipe
        )
        out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert (process.returncode, out.split()[:3]) == (0, [b"asked", b"to", b"stop"])
        assert (await ended(duly, event.id)).status is Status.CANCELLED


async def test_a_worker_learns_of_it_with_its_renewals_at_the_latest(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where nothing wakes it: its loop waits for capacity, or the notification is lost."""
    monkeypatch.setattr("duly.engine.worker.Loop.run", _claim_once)
    duly = Duly(url, lease="1500ms", store_timeout="500ms", poll_interval="60s")
    told = Told(duly)

    @duly.on("long")
    async def long(_event: Event) -> None:
        await asyncio.Event().wait()

    async with duly:
        event = await duly.after(NOW, "long")
        async with working(duly):
            await until(lambda: told.of(Claimed), "it runs")
            assert await duly.cancel(event.id) == "running"
            assert (await ended(duly, event.id)).status is Status.CANCELLED


async def _claim_once(loop: Any) -> None:
    await loop.claim()
    await loop.stopping.wait()


# -- series


async def test_a_series_goes_on_after_a_run_that_was_stopped(url: str) -> None:
    duly = Duly(url, **QUIET)
    told = Told(duly)

    @duly.on("report")
    async def report(_event: Event) -> None:
        await asyncio.Event().wait()

    async with duly, working(duly):
        await duly.every("hourly", every("1h"), "report", max_concurrent=1)
        first = await duly.schedules.trigger("hourly")
        waiting = await duly.schedules.trigger("hourly")
        await until(lambda: told.of(Claimed), "the first runs")
        assert (await duly.events.get(waiting.id)).held is not None
        assert await duly.cancel(first.id) == "running"
        assert (await ended(duly, first.id)).status is Status.CANCELLED
        await until(lambda: len(told.of(Claimed)) == 2, "its end has released the one that waited for it")
        assert (await duly.schedules.get("hourly")).next_at is not None


# -- the stop of a worker is told in the same way


async def test_a_thread_sees_that_its_worker_stops_and_its_event_is_tried_again(url: str) -> None:
    duly = Duly(url, **QUIET)
    running = threading.Event()

    @duly.on("export")
    def export(event: Event) -> None:
        running.set()
        while not event.stopping:
            pass

    async with duly:
        event = await duly.after(NOW, "export")
        async with working(duly):
            await until(running.is_set, "it runs")
        after = await duly.events.get(event.id)
        assert (after.status, after.attempts) == (Status.PENDING, 0)
        assert await acts(duly, event.id) == ["given back"]


async def test_an_event_that_was_asked_to_stop_is_not_given_back(url: str) -> None:
    duly = Duly(url, **QUIET)
    running = threading.Event()

    @duly.on("export")
    def export(event: Event) -> None:
        running.set()
        while not event.stopping:
            pass

    async with duly:
        event = await duly.after(NOW, "export")
        async with working(duly):
            await until(running.is_set, "it runs")
            async with duly.transaction() as tx:
                assert await duly.cancel(event.id, transaction=tx) == "running"
            duly.stop()
        assert (await duly.events.get(event.id)).status is Status.CANCELLED
