"""Acts on everything that a filter matches: pause, resume, trigger, cancel; rehearsed, in batches, and each audited."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly import Duly, Event, InStatus, Invalid, Misuse, OfType, Status, Timer, every
from duly.records.filters import EventFilter
from duly.records.finding.acts import ActedOn, ActKind
from duly.records.finding.counts import Count
from duly.records.finding.schedules import ScheduleFilter
from duly.records.specs import Everything
from duly.testing import ManualClock
from duly.verbs.events import cancel_many
from duly.verbs.schedules import bulk
from tests.make import HOUR, START

NIGHTLY = ScheduleFilter(tag="nightly")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "SCHEDULES_PER_TRANSACTION", 2)
    monkeypatch.setattr(cancel_many, "EVENTS_PER_TRANSACTION", 3)


@pytest.fixture
async def shop(app: Duly) -> Duly:
    @app.on("report")
    async def report(_: Event) -> None: ...

    for number in range(5):
        await app.schedules.put(f"nightly-{number}", every("1h", start=START), "report", tags=["nightly"])
    await app.schedules.put("other", every("1h", start=START), "report")
    await app.schedules.put("elsewhere", every("1h", start=START), "report", tenant="acme", tags=["nightly"])
    return app


async def enabled(app: Duly) -> dict[str, bool]:
    return {one.name: one.enabled for one in await app.schedules.list()}


async def acts(app: Duly, name: str, tenant: str = "default") -> list[tuple[str, str | None]]:
    return [(one.act, one.worker) for one in await app.schedules.history(name, tenant=tenant)]


# -- schedules


async def test_schedules_are_paused_and_resumed_by_a_filter_each_with_a_history_row(shop: Duly) -> None:
    told: list[ActedOn] = []
    done = await shop.schedules.pause_all(
        NIGHTLY, reason="migration", until="2h", tenant="default", by="ada", progress=told.append
    )
    assert done == ActedOn(done=5)
    assert [one.done for one in told] == [2, 4, 5]
    assert await enabled(shop) == {f"nightly-{n}": False for n in range(5)} | {"other": True, "elsewhere": True}
    for number in range(5):
        assert await acts(shop, f"nightly-{number}") == [("created", "api"), ("paused", "ada")]
        paused = await shop.schedules.get(f"nightly-{number}")
        assert (paused.paused_until, paused.pause_reason) == (START + 2 * HOUR, "migration")
    assert await shop.schedules.resume_all(NIGHTLY, by="bob") == ActedOn(done=5)
    assert all((await enabled(shop)).values())
    assert await acts(shop, "nightly-3") == [("created", "api"), ("paused", "ada"), ("resumed", "bob")]
    assert await acts(shop, "elsewhere", "acme") == [("created", "api")]


async def test_a_pause_by_a_filter_leaves_what_is_paused_as_it_is(shop: Duly) -> None:
    await shop.schedules.pause("nightly-1", reason="for good")
    assert (await shop.schedules.pause_all(NIGHTLY, until="2h", tenant="default")).done == 4
    kept = await shop.schedules.get("nightly-1")
    assert (kept.paused_until, kept.pause_reason) == (None, "for good")
    none = msgspec.structs.replace(NIGHTLY, enabled=False)
    assert await shop.schedules.pause_all(none, dry_run=True) == ActedOn(dry_run=True)


async def test_schedules_are_triggered_by_a_filter(shop: Duly) -> None:
    await shop.schedules.pause("nightly-0")
    assert await shop.schedules.trigger_all(NIGHTLY, by="ada") == ActedOn(done=6)
    await shop.tick()
    fired = await shop.events.find(InStatus("COMPLETED"))
    assert len(fired) == 6
    assert await acts(shop, "nightly-4") == [("created", "api"), ("triggered", "ada")]


async def test_a_dry_run_tells_how_many_and_which_kinds_and_changes_nothing(shop: Duly) -> None:
    await shop.schedules.pause("nightly-1")
    kinds = (ActKind("default", "report", "enabled", 4), ActKind("acme", "report", "enabled", 1))
    would = await shop.schedules.pause_all(NIGHTLY, dry_run=True)
    assert would == ActedOn(dry_run=True, would=Count(5, exact=True), kinds=kinds)
    would = await shop.schedules.resume_all(NIGHTLY, dry_run=True)
    assert would.kinds == (ActKind("default", "report", "paused", 1),)
    would = await shop.schedules.trigger_all(NIGHTLY, dry_run=True, tenant="default")
    assert would.would == Count(5, exact=True)
    assert await acts(shop, "nightly-0") == [("created", "api")]
    assert (await shop.schedules.pause_all(NIGHTLY)).done == 5, "as the dry run has said"


async def test_an_empty_filter_is_refused_unless_everything_is_meant(shop: Duly) -> None:
    for act in (shop.schedules.pause_all, shop.schedules.resume_all, shop.schedules.trigger_all):
        with pytest.raises(Invalid, match="everything"):
            await act(ScheduleFilter())
    nothing: Any
    for nothing in (EventFilter(), None, Everything()):
        with pytest.raises(Invalid, match="everything"):
            await shop.events.cancel_all(nothing)
    with pytest.raises(Misuse, match="filter"):
        await shop.schedules.pause_all("nightly")  # type: ignore[arg-type]
    assert (await shop.schedules.pause_all(ScheduleFilter(), everything=True)).done == 7


async def test_what_somebody_else_is_changing_is_left_alone_and_counted(
    shop: Duly, monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    if "sqlite" in request.node.callspec.id:
        async with shop.transaction() as tx:  # the one writer: its own transaction sees its own lock
            await shop.schedules.pause("nightly-2", transaction=tx)
        assert (await shop.schedules.pause_all(NIGHTLY, tenant="default")).done == 4
        return
    monkeypatch.setattr(bulk, "RETRY_S", 0.001)
    async with shop.transaction() as tx:
        await shop.schedules.skip("nightly-2", transaction=tx)
        done = await shop.schedules.pause_all(NIGHTLY, tenant="default")
        assert done == ActedOn(done=4, left_alone=1)
    assert (await shop.schedules.get("nightly-2")).enabled


async def test_a_rule_that_cannot_be_evaluated_harms_no_neighbour(shop: Duly, clock: ManualClock) -> None:
    await shop.schedules.pause_all(NIGHTLY, tenant="default")
    stored = await shop.store.schedule_named("default", "nightly-2")
    assert stored is not None
    await shop.store.put_schedule(msgspec.structs.replace(stored, policies_json='{"exclude": ["holidays:XX"]}'))
    clock.advance(2 * HOUR)
    assert await shop.schedules.resume_all(NIGHTLY, tenant="default") == ActedOn(done=4, left_alone=1)
    assert not (await shop.schedules.get("nightly-2")).enabled


async def test_a_pause_that_has_ended_by_itself_is_none_that_a_filter_resumes(shop: Duly, clock: ManualClock) -> None:
    await shop.schedules.pause_all(NIGHTLY, until="90m", tenant="default")
    clock.advance(3 * HOUR)
    assert (await shop.schedules.resume_all(NIGHTLY, by="ada")).done == 5
    assert await acts(shop, "nightly-0") == [("created", "api"), ("paused", "api"), ("resumed", "schedule")]


# -- events


async def test_events_are_cancelled_by_a_filter_and_schedules_go_on(shop: Duly) -> None:
    await shop.add_many(Timer(START + HOUR, "letter", key=f"letter-{number}") for number in range(7))
    await shop.at(START + HOUR, "parcel")
    told: list[ActedOn] = []
    letters = EventFilter(type="letter")
    would = await shop.events.cancel_all(letters, dry_run=True)
    assert would == ActedOn(
        dry_run=True, would=Count(7, exact=True), kinds=(ActKind("default", "letter", "PENDING", 7),)
    )
    done = await shop.events.cancel_all(letters, reason="a wrong price", by="ada", progress=told.append)
    assert (done, [one.done for one in told]) == (ActedOn(done=7), [3, 6, 7])
    for event in await shop.events.find(OfType("letter")):
        [entry] = await shop.events.history(event.id)
        assert (event.status, entry.act, entry.worker, entry.detail) == (
            "CANCELLED", "cancelled", "ada", "a wrong price",
        )  # fmt: skip
    assert len(await shop.events.find(InStatus("PENDING") & OfType("parcel"))) == 1
    heads = await shop.events.cancel_all(EventFilter(type="report"), tenant="default")
    assert heads.done == 6
    following = await shop.schedules.list(tenant="default")
    assert {one.next_at for one in following} == {START + 2 * HOUR}, "each schedule goes on with its next occurrence"


async def test_an_event_that_runs_is_asked_to_stop_and_what_has_ended_is_not_touched(shop: Duly) -> None:
    ran = await shop.at(START, "report")
    await shop.tick()
    running = await shop.at(START, "slow")
    await shop.store.claim("w", {running.lane: 1}, timedelta(minutes=5))
    assert (await shop.events.cancel_all(OfType("slow") | OfType("report"), tenant="default")).done == 7
    asked = await shop.events.get(running.id)
    assert asked.status is Status.PROCESSING
    assert asked.stop_requested is not None
    assert (await shop.events.get(ran.id)).status is Status.COMPLETED


async def test_cancelling_what_has_its_turn_releases_the_one_that_waits(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("one-by-one", every("1d", start=START), "report", max_concurrent=1)
    first = await app.schedules.trigger("one-by-one")
    clock.advance(HOUR)
    second = await app.schedules.trigger("one-by-one")
    assert (first.held, second.held) == (None, "waits for its turn")
    done = await app.events.cancel_all(EventFilter(schedule="one-by-one", due_to=START + HOUR))
    assert done == ActedOn(done=1)
    seen = [await app.events.get(one.id) for one in (first, second)]
    assert [(one.status, one.held) for one in seen] == [(Status.CANCELLED, None), (Status.PENDING, None)]
