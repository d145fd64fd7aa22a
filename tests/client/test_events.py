"""What the client says of events, and does to them, is what the verbs of Python say and do on the same database."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly import (
    Conflict,
    DueBetween,
    Duly,
    ErrorLike,
    Event,
    ExecutedLate,
    FailedBetween,
    InStatus,
    Invalid,
    Misuse,
    NotFound,
    OfDestination,
    OfSeries,
    OfTenant,
    OfType,
    OfUser,
    Overdue,
    Ready,
    Status,
    Stuck,
    Timer,
    WithKey,
    every,
    webhook,
)
from duly.client import Client
from duly.client.protocol.writing import rate_text
from duly.decide.targets.rates import read_rate
from duly.records.filters import EventFilter, filter_of
from duly.records.results import Discarded, Replayed
from duly.records.specs import Everything, Spec
from duly.testing import ManualClock
from tests.client.serving import without_via
from tests.dead_letters import dead
from tests.make import DAY, HOUR, START, make_event
from tests.stores.rows import keep

NOBODY = "00000000-0000-7000-8000-000000000000"
ADA: dict[str, Any] = {
    "first_name": "Ada",
    "last_name": "Lovelace",
    "date_of_birth": "1990-12-10",
    "timezone": "Europe/London",
}


def told(events: list[Event]) -> list[Event]:
    """Without what is not told over HTTP."""
    return [msgspec.structs.replace(event, gated=False, rule_json=None, via=None) for event in events]


async def test_specs_find_the_same_as_in_python(app: Duly, client: Client, clock: ManualClock) -> None:
    @app.on("done")
    def done(_: Event) -> None:
        pass

    user = await client.users.add(**ADA)
    schedule = await client.every("hourly", every("1h"), "digest", overlap="skip")
    await client.add_many([Timer(START, "done"), Timer(START + HOUR, "done", key="k")])
    await dead(app.store, 2, error="410 Gone", target=webhook("https://hooks.example/x"), type="letter")
    clock.advance(hours=2)
    await app.tick()
    specs: list[Spec] = [
        Everything(),
        OfType("done"),
        WithKey("k"),
        OfUser(user.id),
        OfSeries(schedule.series),
        OfSeries(f"user:{user.id}:birthday"),
        OfDestination("https://hooks.example"),
        ErrorLike("gone"),
        InStatus("FAILED"),
        InStatus("PENDING") | InStatus("COMPLETED"),
        DueBetween(START, START + HOUR),
        DueBetween(end=START + HOUR) & DueBetween(START),
        FailedBetween(START - DAY, START + DAY),
        ExecutedLate(timedelta(minutes=90)),
        Stuck(timedelta(minutes=30)),
        OfType("done") & InStatus("COMPLETED") & DueBetween(START) & OfType("done"),
    ]
    for spec in specs:
        here, there = await client.events.find(spec), await app.events.find(spec, tenant="default")
        assert here, spec
        assert here == told(there), spec
        assert [event async for event in client.events.all(spec)] == here
    found = await client.events.find()
    assert (
        {event.schedule for event in found} == {event.schedule for event in await app.events.find()} == {None, "hourly"}
    )


async def test_a_filter_finds_the_same_as_in_python(app: Duly, client: Client) -> None:
    schedule = await client.every("hourly", every("1h"), "digest")
    await client.at(START, "digest", key="k")
    for which in (EventFilter(schedule="hourly"), EventFilter(schedule=schedule.id), EventFilter(key="k")):
        [here] = await client.events.find(which)
        assert [here] == told(await app.events.find(which, tenant="default")), which
        assert here.schedule == (None if which.key else "hourly")


async def test_events_of_a_deleted_schedule_are_found_by_its_id(app: Duly, client: Client) -> None:
    schedule = await client.every("hourly", every("1h"), "digest")
    await client.schedules.delete("hourly")
    [left] = await client.events.find(OfSeries(schedule.series))
    assert (left.status, left.schedule) == (Status.CANCELLED, "hourly")
    assert await client.events.find(OfSeries(f"schedule:{NOBODY}")) == []


async def test_pages_of_events_over_http_follow_one_another(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await client.add_many(Timer(START + DAY, "x/ä&?=", n) for n in range(25))
    monkeypatch.setattr("duly.client.protocol.paging.MOST_LISTED", 10)
    newest = sorted(ids, reverse=True)
    assert [event.id async for event in client.events.all(OfType("x/ä&?="))] == newest
    pages, after = [], None
    while page := await client.events.find(OfType("x/ä&?="), limit=10, after=after):
        pages.append(len(page))
        after = page[-1].id
    assert pages == [10, 10, 5]
    with pytest.raises(Invalid, match="limit"):
        await client.events.find(limit=1001)
    with pytest.raises(Invalid, match="after"):
        await client.events.find(after="7")


async def test_a_page_may_be_as_large_as_any(client: Client) -> None:
    await client.add_many(Timer(START + DAY, "x", "y" * 2000) for _ in range(2200))
    assert len(await client.events.find(limit=1000)) == 1000
    assert len({event.id async for event in client.events.all()}) == 2200


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (Ready(), "database's clock"),
        (Overdue(), "database's clock"),
        (Stuck() & ExecutedLate(), "only one stuck"),
        (~OfType("x"), "no filter for Not"),
        (OfType("x") | OfType("y"), "no filter for OfType"),
        (OfType("x") & OfType("y"), "only one type"),
        (InStatus("FAILED") & InStatus("PENDING"), "no event can have both"),
        (OfTenant("acme"), "one tenant only"),
    ],
)
def test_specs_that_filters_cannot_say_say_what_to_do(spec: Spec, says: str) -> None:
    with pytest.raises(Misuse, match=says):
        filter_of(spec, None)


def test_a_client_needs_no_filter_for_its_own_tenant() -> None:
    assert filter_of(OfTenant("acme") & OfType("x"), "acme") == EventFilter(type="x")


async def test_a_client_can_reschedule_cancel_replay_and_discard_events(app: Duly, client: Client) -> None:
    event = await client.at(START + HOUR, "greet")
    moved = await client.events.reschedule(event.id, START + DAY)
    assert moved == without_via(await app.events.get(event.id))
    assert moved.due == START + DAY
    assert await client.events.cancel(event.id, reason="no more") == "cancelled"
    [first, second] = await dead(app.store, 2)
    assert (await client.events.replay(first)).status is Status.PENDING
    assert (await client.events.discard(second, reason="nobody cares")).status is Status.CANCELLED
    for id in (event.id, first, second):
        assert await client.events.history(id) == await app.events.history(id)


async def test_a_client_can_replay_an_event_with_another_payload(app: Duly, client: Client) -> None:
    [first, second] = await dead(app.store, 2)
    new = await client.events.replay(first, payload={"n": datetime(2026, 1, 1, tzinfo=UTC)})
    assert new == without_via(await app.events.get(new.id))
    assert (new.replay_of, new.payload, new.status) == (first, {"n": "2026-01-01T00:00:00Z"}, Status.PENDING)
    assert (await client.events.get(first)).replayed_as == new.id
    assert (await client.events.replay(second, payload=None)).replay_of == second
    with pytest.raises(Conflict, match="it is PENDING, and its own payload may still be delivered"):
        await client.events.replay(new.id, payload={})
    with pytest.raises(Invalid, match="payload"):
        await client.events.replay(first, payload=object())


async def test_a_client_can_count_replay_and_discard_many_dead_letters(app: Duly, client: Client) -> None:
    await dead(app.store, 5, target=webhook("https://hooks.example/x"))
    await dead(app.store, 3, type="other")
    assert await client.events.dead_letters() == await app.events.dead_letters(tenant="default")
    spec = OfDestination("https://hooks.example") & InStatus("FAILED")
    assert (await client.events.dead_letters(spec)).events == 5
    heard: list[Replayed] = []
    done = await client.events.replay_all(spec, rate=0.5, limit=4, progress=heard.append)
    assert (done.events, done.until, done.left_alone) == (4, START + timedelta(seconds=6), 0)
    assert heard == [done]
    assert (await client.events.discard_all(OfType("other"), reason="old")).events == 3
    assert (await client.events.dead_letters()).events == 1


async def test_very_many_dead_letters_are_replayed_by_several_requests(
    app: Duly, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.api.nouns.dead_letter_batches.MOST_AT_ONCE", 3)
    await dead(app.store, 8)
    heard: list[Replayed] = []
    done = await client.events.replay_all(rate=0.5, limit=7, progress=heard.append)
    assert [one.events for one in heard] == [3, 6, 7]
    assert (heard[-1], done.until) == (done, START + timedelta(seconds=12))
    await dead(app.store, 4)
    away: list[Discarded] = []
    assert (await client.events.discard_all(progress=away.append)).events == 5
    assert [one.events for one in away] == [3, 5]


@pytest.mark.parametrize("rate", [50, 0.5, "600/m", 0.00005, 0.1234567, 1e6])
def test_rates_of_replay_mean_the_same_over_http(rate: Any) -> None:
    assert read_rate(rate_text(rate)) == read_rate(rate)


async def test_errors_of_a_client_are_those_of_python_and_name_the_request(app: Duly, client: Client) -> None:
    event = await client.at(START, "greet")
    with pytest.raises(Conflict, match=r"only FAILED events can be replayed \(request [0-9a-f-]{36}\)") as refused:
        await client.events.replay(event.id)
    assert refused.value.request_id
    assert refused.value.request_id in str(refused.value)
    for act in (client.events.get, client.events.why, client.events.history):
        for unknown in (NOBODY, "7"):
            with pytest.raises(NotFound):
                await act(unknown)
    with pytest.raises(NotFound):
        await client.events.by_key("nobody/has this")
    with pytest.raises(Invalid, match="rate") as invalid:
        await client.events.replay_all(rate="often")
    assert invalid.value.request_id
    with pytest.raises(Invalid, match="there is no schedule 'nightly'"):
        await client.events.find(EventFilter(schedule="nightly"))
    with pytest.raises(Misuse, match="Create a key for each person or program"):
        await client.events.cancel(event.id, by="ada")


async def test_why_an_event_waits_is_told_as_in_python(app: Duly, client: Client) -> None:
    for event in (await client.at(START + HOUR, "x"), await client.at(START, "x")):
        assert await client.events.why(event.id) == await app.events.why(event.id)
    with pytest.raises(NotFound):
        await client.events.why(NOBODY)


@pytest.mark.broken_rows("its rows are written by hand")
async def test_cancelling_over_http_answers_as_in_python(app: Duly, client: Client) -> None:
    for name, status in (("fired", Status.COMPLETED), ("running", Status.PROCESSING), ("cancelled", Status.PENDING)):
        await keep(app.store, make_event(key=name, status=status))
        assert await client.cancel(name) == name
    assert await client.events.cancel("cancelled") == await client.cancel("no/body") == "nothing"
    assert (await client.events.get("cancelled")).status is Status.CANCELLED
    with pytest.raises(Misuse, match="transaction= cannot be used over HTTP"):
        await client.cancel("fired", transaction=object())
