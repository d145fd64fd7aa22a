"""duly.events: looking, cancelling, moving, replaying, discarding, and what is refused."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from duly import Conflict, DueBetween, Duly, Event, InStatus, Invalid, NotFound, OfType, Retry, Status, WithKey, every
from duly.errors import IllegalTransition
from duly.ids import new_id
from duly.testing import ManualClock
from tests.make import DAY, HOUR, LANE, LEASE, MINUTE, START, a_user, make_event
from tests.stores.rows import keep

WRONG_IDS: list[Any] = [
    "",
    "7",
    "not-an-id",
    "00000000-0000-7000-8000-00000000000g",
    "\x00",
    "\ud800",
    None,
    7,
    b"7",
    [],
    object(),
]
ACTS: dict[str, dict[str, Any]] = {
    "get": {},
    "history": {},
    "why": {},
    "reschedule": {"due": START + HOUR},
    "replay": {},
    "discard": {},
}


async def in_status(app: Duly, status: Status, **fields: Any) -> Event:
    [event] = await keep(app.store, make_event(status=status, last_error="503", **fields))
    return event


@pytest.mark.parametrize("act", ACTS)
async def test_an_unknown_id_is_not_found(app: Duly, act: str) -> None:
    id = new_id()
    with pytest.raises(NotFound, match=f"there is no event {id}"):
        await getattr(app.events, act)(id, **ACTS[act])


@pytest.mark.parametrize("act", ACTS)
async def test_text_that_is_neither_an_id_nor_a_key_is_not_found_and_what_is_no_text_is_invalid(
    app: Duly, act: str
) -> None:
    for wrong in WRONG_IDS:
        with pytest.raises(NotFound if isinstance(wrong, str) else Invalid) as refused:
            await getattr(app.events, act)(wrong, **ACTS[act])
        if isinstance(refused.value, Invalid):
            assert [problem.path for problem in refused.value.problems] == ["id"]


@pytest.mark.parametrize("act", ACTS)
async def test_another_tenants_event_does_not_exist(app: Duly, act: str) -> None:
    event = await in_status(app, Status.FAILED if act in ("replay", "discard") else Status.PENDING, tenant="acme")
    with pytest.raises(NotFound, match="in tenant 'other'"):
        await getattr(app.events, act)(event.id, tenant="other", **ACTS[act])
    assert await app.events.get(event.id, tenant="acme") == event
    assert await app.events.history(event.id) == []
    await getattr(app.events, act)(event.id, tenant="acme", **ACTS[act])


async def test_an_id_may_be_written_in_any_form_of_a_uuid(app: Duly) -> None:
    event = await app.at(START, "greet")
    for written in (event.id.upper(), f"{{{event.id}}}", event.id.replace("-", ""), f"urn:uuid:{event.id}"):
        assert await app.events.get(written) == event
        assert await app.events.history(written) == []


# -- every act in every status

LEGAL = {
    "reschedule": {Status.PENDING: Status.PENDING},
    "replay": {Status.FAILED: Status.PENDING},
    "discard": {Status.FAILED: Status.CANCELLED},
}


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize("act", LEGAL)
@pytest.mark.parametrize("status", list(Status))
async def test_an_act_is_done_where_the_lifecycle_has_it_and_refused_elsewhere(
    app: Duly, act: str, status: Status
) -> None:
    event = await in_status(app, status)
    if after := LEGAL[act].get(status):
        done = await getattr(app.events, act)(event.id, **ACTS[act], by="ada")
        assert done.status is after
        [entry] = await app.events.history(event.id)
        assert entry.worker == "ada"
        return
    with pytest.raises(IllegalTransition, match=f"cannot {act} event {event.id}: it is {status}"):
        await getattr(app.events, act)(event.id, **ACTS[act])
    assert await app.events.get(event.id) == event
    assert await app.events.history(event.id) == []


@pytest.mark.parametrize("act", LEGAL)
async def test_what_an_act_returns_is_what_is_stored(app: Duly, clock: ManualClock, act: str) -> None:
    clock.advance(DAY)
    [status] = LEGAL[act]
    event = await in_status(app, status, attempts=0)
    done = await getattr(app.events, act)(event.id, **ACTS[act])
    assert await app.events.get(event.id) == done


# -- cancel


async def test_a_cancelled_event_never_fires_and_frees_its_key(app: Duly, clock: ManualClock) -> None:
    greeted: list[Event] = []

    @app.on("greet")
    async def greet(event: Event) -> None:
        greeted.append(event)

    event = await app.at(START + HOUR, "greet", key="k")
    assert await app.events.cancel(event.id, by="ada", reason="paid") == "cancelled"
    cancelled = await app.events.get(event.id)
    assert (cancelled.status, cancelled.ready) == (Status.CANCELLED, None)
    clock.advance(DAY)
    await app.tick()
    assert greeted == []
    assert [(e.act, e.worker, e.detail) for e in await app.events.history(event.id)] == [("cancelled", "ada", "paid")]
    assert (await app.put(START, "greet", key="k")).change == "created"


@pytest.mark.broken_rows("its rows are written by hand")
async def test_a_retry_that_waits_can_be_cancelled(app: Duly) -> None:
    event = await in_status(app, Status.PENDING, attempts=1)
    assert await app.events.cancel(event.id) == "cancelled"


async def test_a_held_event_can_be_cancelled(app: Duly) -> None:
    event = await in_status(app, Status.PENDING, held="paused")
    assert await app.events.cancel(event.id) == "cancelled"


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "x" * 100_000], ids=["nul", "surrogate", "endless"])
async def test_any_reason_and_any_name_can_be_given(app: Duly, text: str) -> None:
    """Kept as far as the store can, or refused as invalid; never a traceback, and never half done."""
    event = await app.at(START, "greet")
    for words in ({"reason": text}, {"by": text}):
        try:
            await app.events.cancel(event.id, **words)
        except Invalid:
            assert (await app.events.get(event.id)).status is Status.PENDING
        else:
            assert (await app.events.get(event.id)).status is Status.CANCELLED
            event = await app.at(START, "greet")


# -- reschedule


async def test_a_rescheduled_event_fires_at_its_new_time(app: Duly, clock: ManualClock) -> None:
    greeted: list[Event] = []

    @app.on("greet")
    async def greet(event: Event) -> None:
        greeted.append(event)

    event = await app.at(START + HOUR, "greet")
    moved = await app.events.reschedule(event.id, (START + DAY).astimezone(timezone(5 * HOUR)), by="ada")
    assert (moved.due, moved.ready, moved.due.tzinfo) == (START + DAY, START + DAY, UTC)
    clock.set(START + HOUR)
    await app.tick()
    assert greeted == []
    clock.set(START + DAY)
    await app.tick()
    assert [(e.id, e.due) for e in greeted] == [(event.id, START + DAY)]
    [entry, _] = await app.events.history(event.id)
    assert (entry.act, entry.detail) == ("rescheduled", "due 2026-01-01T01:00:00Z → 2026-01-02T00:00:00Z")


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize("fields", [{"attempts": 1}, {"interruptions": 1}])
async def test_an_event_that_has_started_cannot_be_rescheduled(app: Duly, fields: dict[str, int]) -> None:
    event = await in_status(app, Status.PENDING, **fields)
    with pytest.raises(Conflict, match="cannot reschedule"):
        await app.events.reschedule(event.id, START + DAY)
    assert await app.events.get(event.id) == event


@pytest.mark.parametrize(
    "due",
    [datetime(2026, 1, 1), None, "tomorrow", 7, datetime(9999, 12, 31, tzinfo=UTC), timedelta(hours=1)],  # noqa: DTZ001
    ids=str,
)
async def test_a_due_time_that_cannot_be_meant_is_refused(app: Duly, due: Any) -> None:
    event = await app.at(START, "greet")
    with pytest.raises(Invalid) as refused:
        await app.events.reschedule(event.id, due)
    assert [problem.path for problem in refused.value.problems] == ["due"]
    assert await app.events.get(event.id) == event


# -- replay and discard


async def test_a_dead_letter_replayed_keeps_its_id_and_gets_all_its_attempts_anew(
    app: Duly, clock: ManualClock
) -> None:
    tries: list[Event] = []

    @app.on("hopeless")
    async def hopeless(event: Event) -> None:
        tries.append(event)
        if len(tries) <= 2:
            raise ConnectionError("no answer")

    event = await app.at(START, "hopeless", key="k", retry=Retry(max_attempts=2, base=timedelta()))
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.FAILED
    clock.advance(DAY)
    replayed = await app.events.replay(event.id, by="ada")
    assert (replayed.id, replayed.status, replayed.attempts) == (event.id, Status.PENDING, 0)
    await app.tick()
    ended = await app.events.get(event.id)
    assert (ended.status, ended.attempts, ended.due) == (Status.COMPLETED, 1, START)
    assert [(e.id, e.attempt) for e in tries] == [(event.id, 1), (event.id, 2), (event.id, 1)]
    history = await app.events.history(event.id)
    assert [entry.act for entry in history] == ["failed", "failed", "replayed", "delivered"]
    assert history[2].detail == "after 2 attempts: ConnectionError: no answer"


async def test_a_replayed_event_is_ready_at_once_and_not_before_it_is_due(app: Duly, clock: ManualClock) -> None:
    late = await in_status(app, Status.FAILED, due=START - DAY)
    early = await in_status(app, Status.FAILED, due=START + DAY)
    await app.events.replay(late.id)
    await app.events.replay(early.id)
    assert [event.id for event in await app.store.claim("w1", {LANE: 5}, LEASE)] == [late.id]


async def test_a_discarded_dead_letter_frees_its_key(app: Duly) -> None:
    event = await in_status(app, Status.FAILED, key="k")
    await app.events.discard(event.id, by="ada", reason="nobody needs it")
    assert (await app.put(START, "greet", key="k")).change == "created"
    [entry] = await app.events.history(event.id)
    assert (entry.act, entry.worker, entry.detail) == ("discarded", "ada", "nobody needs it")


# -- find


async def test_pages_are_newest_first_and_complete(app: Duly) -> None:
    ids = [(await app.at(START, "greet", n)).id for n in range(7)]
    found: list[Event] = []
    while page := await app.events.find(limit=3, after=found[-1].id if found else None):
        found += page
    assert [event.id for event in found] == sorted(ids, reverse=True)


async def test_a_tenant_finds_only_its_own_events(app: Duly) -> None:
    ours = await app.at(START, "greet", key="k", tenant="a")
    theirs = await app.at(START, "greet", key="k", tenant="b")
    assert await app.events.find(tenant="a") == [ours]
    assert await app.events.find(WithKey("k"), tenant="b") == [theirs]
    assert await app.events.find(OfType("greet") | ~OfType("greet"), tenant="a") == [ours], "an | does not leak"
    assert await app.events.find(tenant="c") == []
    assert await app.events.by_key("k", tenant="a") == ours
    with pytest.raises(NotFound):
        await app.events.by_key("k")
    with pytest.raises(NotFound):
        await app.events.by_key("k", tenant="c")


async def test_specs_narrow_the_search(app: Duly) -> None:
    soon, late = await app.at(START + MINUTE, "greet"), await app.at(START + DAY, "greet")
    assert await app.events.find(DueBetween(end=START + HOUR) & InStatus("PENDING")) == [soon]
    assert await app.events.find(~DueBetween(end=START + HOUR)) == [late]


@pytest.mark.parametrize("limit", [0, -1, 1001, "10", None, 1.5])
async def test_a_limit_out_of_bounds_is_invalid(app: Duly, limit: Any) -> None:
    with pytest.raises(Invalid, match="limit"):
        await app.events.find(limit=limit)


@pytest.mark.parametrize("after", ["", "7", 7, b"7"], ids=repr)
async def test_a_cursor_that_is_no_id_is_invalid(app: Duly, after: Any) -> None:
    with pytest.raises(Invalid, match=r"^after: .* is not an event's id: expected a UUID"):
        await app.events.find(after=after)


@pytest.mark.parametrize("key", ["nul\x00", "\ud800", "", "x" * 10_000], ids=["nul", "surrogate", "empty", "endless"])
async def test_a_key_that_no_timer_can_have_is_not_found(app: Duly, key: str) -> None:
    with pytest.raises(NotFound):
        await app.events.by_key(key)
    with pytest.raises(NotFound):
        await app.events.by_key("k", tenant=key)
    assert await app.events.find(tenant=key) == []


# -- whose they are


async def test_an_event_says_the_name_of_its_schedule_also_of_one_that_is_deleted(app: Duly) -> None:
    hourly = await app.schedules.put("hourly", every("1h"), "digest")
    theirs = await app.schedules.put("hourly", every("2h"), "digest", tenant="theirs")
    gone = await app.schedules.put("gone", every("1h"), "digest")
    beside = await app.schedules.trigger("hourly")
    backfilled = await app.schedules.backfill("hourly", START - 2 * HOUR, START - HOUR)
    await app.at(START + HOUR, "digest", key="k")
    await app.users.add(**a_user())
    await app.schedules.delete("gone")
    events = await app.events.find()
    named = {event.id: event.schedule for event in events if event.schedule is not None}
    heads = {
        event.series: event.id for event in events if event.schedule is not None and event.status is Status.PENDING
    }
    assert named == {
        **{event.id: "hourly" for event in events if event.series in (hourly.series, theirs.series)},
        **{event.id: "gone" for event in events if event.series == gone.series},
    }
    assert {beside.id, *backfilled.ids, heads[theirs.series]} <= set(named)
    assert "gone" in named.values()


def test_synchronous_code_is_told_the_names_of_schedules(url: str) -> None:
    with Duly(url).sync as sync:
        sync.schedules.put("hourly", every("1h"), "digest")
        events = sync.events.find()
        assert [event.schedule for event in events] == ["hourly"]


# -- page by page


async def test_pages_of_events_are_of_one_tenant_and_follow_one_another(app: Duly) -> None:
    ours = [(await app.at(START, "greet", tenant="acme")).id for _ in range(5)][::-1]
    await app.at(START, "greet", tenant="theirs")
    first = await app.events.page(tenant="acme", limit=3)
    assert ([event.id for event in first.events], first.next) == (ours[:3], ours[2])
    last = await app.events.page(tenant="acme", limit=3, after=first.next)
    assert ([event.id for event in last.events], last.next) == (ours[3:], None)
    assert len((await app.events.page()).events) == 6
    assert await app.events.page(OfType("other"), tenant="acme") == ([], None)
    assert (await app.events.page(tenant="nobody")).events == []


@pytest.mark.parametrize("limit", [0, -1, 1001, "7", None, True])
async def test_a_page_size_out_of_bounds_is_invalid(app: Duly, limit: Any) -> None:
    with pytest.raises(Invalid, match="limit"):
        await app.events.page(limit=limit)


async def test_a_page_begins_after_an_id(app: Duly) -> None:
    for wrong in WRONG_IDS:
        if wrong is not None:
            with pytest.raises(Invalid, match="after"):
                await app.events.page(after=wrong)


def test_synchronous_code_can_read_events_page_by_page(url: str) -> None:
    with Duly(url).sync as sync:
        sync.after(timedelta(hours=1), "greet")
        page = sync.events.page(OfType("greet"), limit=1)
        assert (len(page.events), page.next) == (1, None)
