"""``duly.metrics()``: in an application of one's own."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from duly import Duly
from duly.errors import RightsMissing, StoreUnavailable
from duly.observers.metrics.counts import MOST_PAIRS
from duly.testing import ManualClock
from tests.api.greeting import greetings
from tests.conftest import OpenDuly
from tests.exposition import Exposition
from tests.make import HOUR, MINUTE, START
from tests.worker.running_worker import until


async def scraped(app: Duly) -> Exposition:
    return Exposition((await app.metrics().text()).decode())


async def test_a_registry_has_the_figures_of_the_database_in_another_thread(app: Duly) -> None:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(app.metrics())
    greetings(app, "greet")
    await app.at(START, "greet")
    await app.after(HOUR, "greet")
    await app.tick()
    found = Exposition((await asyncio.to_thread(generate_latest, registry)).decode())
    assert found("duly_events_completed_total", type="greet") == 1
    assert found("duly_events_pending") == 1
    assert app.metrics() is app.metrics()


async def test_a_registry_in_the_event_loop_has_what_the_database_told_before(app: Duly) -> None:
    registry = CollectorRegistry()
    registry.register(app.metrics())
    await app.after(HOUR, "greet")
    assert not Exposition(generate_latest(registry).decode()).has("duly_events_pending")
    await until(
        lambda: Exposition(generate_latest(registry).decode()).has("duly_events_pending"), "the database has answered"
    )
    assert Exposition(generate_latest(registry).decode())("duly_events_pending") == 1


async def test_a_closed_duly_tells_what_it_has_counted(app: Duly) -> None:
    own = Duly("sqlite://")
    metrics = own.metrics()
    async with own:
        await own.after(HOUR, "greet")
        assert Exposition((await metrics.text()).decode())("duly_store_up") == 1
    registry = CollectorRegistry()
    registry.register(metrics)
    found = Exposition(generate_latest(registry).decode())
    assert found("duly_events_created_total", type="greet") == 1
    assert not found.has("duly_store_up")


async def test_the_database_is_asked_once_however_many_scrape(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[Any]] = []
    figures = type(app.store).figures

    async def counted(store: Any, *limits: int) -> Any:
        asked.append(limits)
        return await figures(store, *limits)

    monkeypatch.setattr(type(app.store), "figures", counted)
    metrics = app.metrics()
    await asyncio.gather(*(metrics.text() for _ in range(20)))
    assert len(asked) == 1


async def test_an_outage_leaves_what_the_process_has_counted(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> Any:
        raise StoreUnavailable("no route to host")

    app.metrics()
    await app.after(HOUR, "greet")
    monkeypatch.setattr(type(app.store), "workers", away)
    found = await scraped(app)
    assert found("duly_store_up") == 0
    assert found("duly_events_created_total") == 1
    assert not found.has("duly_events_pending"), "what was true before may not be true now"


async def test_missing_rights_are_logged_once_and_the_rest_is_told(
    app: Duly, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused(*_: object) -> Any:
        raise RightsMissing("permission denied for table schedules")

    monkeypatch.setattr(type(app.store), "figures", refused)
    monkeypatch.setattr("duly.observers.metrics.gauges.CACHED_FOR_S", 0.0)
    with caplog.at_level(logging.WARNING, "duly"):
        assert (await scraped(app))("duly_store_up") == 1
        assert (await scraped(app))("duly_store_up") == 1
    told = [record.getMessage() for record in caplog.records if "metrics" in record.getMessage()]
    assert told == ['metrics.incomplete error="permission denied for table schedules"']


async def test_lanes_beyond_a_hundred_are_shown_together_and_as_served_only_if_all_are(app: Duly) -> None:
    for number in range(MOST_PAIRS + 20):
        await app.at(START - MINUTE, f"type {number}")
    found = await scraped(app)
    assert found("duly_events_due") == MOST_PAIRS + 20
    assert found("duly_events_due", lane="other") == 20
    assert found("duly_oldest_overdue_seconds", lane="other") == 60
    assert found("duly_lane_served", lane="other") == 0


async def test_a_tick_tells_when_it_passed_to_every_process(app: Duly, duly: OpenDuly, clock: ManualClock) -> None:
    greetings(app, "greet")
    assert not (await scraped(app)).has("duly_pass_age_seconds")
    await app.tick()
    clock.advance(7 * MINUTE)
    found = await scraped(await duly())
    assert 7 * 60 <= found("duly_pass_age_seconds") < 7 * 60 + 5
    assert found("duly_workers", state="stopped") == 1
    assert found("duly_workers", state="running") == 0
    assert found("duly_lane_served", lane="handler:greet") == 1, "a tick counts for an hour"
