"""What expires is not started any more: the first attempt, a retry, an interrupted one, one that was held."""

from datetime import timedelta

import pytest

from duly import Conflict, Duly, Event, Invalid, Retry, Status, Timer, cron, every
from duly.testing import ManualClock
from tests.make import HOUR, START

MINUTE = timedelta(minutes=1)
WITHIN_THE_HOUR = "expired: no attempt may begin after 2026-01-01T01:00:00Z"


class Handler:
    """Counts calls, and fails as often as it is told to."""

    def __init__(self, app: Duly, type: str = "x") -> None:
        self.calls, self.failures = 0, 0
        app.on(type)(self.handle)

    def handle(self, _: Event) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise RuntimeError("the shop is closed")


async def ended(app: Duly, event: Event) -> tuple[Status, str | None, list[str]]:
    found = await app.events.get(event.id)
    return found.status, found.last_error, [entry.act for entry in await app.events.history(event.id)]


@pytest.mark.parametrize("late", [timedelta(), HOUR], ids=["on time", "at the last instant"])
async def test_an_event_that_has_not_expired_fires(app: Duly, clock: ManualClock, late: timedelta) -> None:
    handler = Handler(app)
    event = await app.at(START, "x", expires=HOUR)
    clock.advance(late)
    await app.tick()
    assert (handler.calls, (await app.events.get(event.id)).status) == (1, Status.COMPLETED)


async def test_an_expired_event_is_skipped_and_says_why(app: Duly, clock: ManualClock) -> None:
    handler = Handler(app)
    event = await app.at(START, "x", expires=HOUR)
    neighbour = await app.at(START, "x")
    clock.advance(HOUR + timedelta(microseconds=1))
    figures = await app.tick()
    assert await ended(app, event) == (Status.SKIPPED, WITHIN_THE_HOUR, ["skipped"])
    assert (await app.events.get(neighbour.id)).status is Status.COMPLETED
    assert (handler.calls, figures.processed, figures.failed) == (1, 1, 0)
    [entry] = await app.events.history(event.id)
    assert (entry.detail, entry.attempt) == (WITHIN_THE_HOUR, None)


async def test_a_retry_that_comes_too_late_is_not_made_and_its_error_is_kept(app: Duly, clock: ManualClock) -> None:
    handler = Handler(app)
    handler.failures = 9
    event = await app.at(START, "x", expires="1h", retry=Retry(max_attempts=5, base=HOUR / 2, factor=1.0))
    await app.tick()
    clock.advance(2 * HOUR)
    await app.tick()
    status, error, acts = await ended(app, event)
    assert (handler.calls, status, acts) == (1, Status.SKIPPED, ["failed", "skipped"])
    assert error is not None
    assert error.startswith(f"{WITHIN_THE_HOUR}. Its last error: ")
    assert "the shop is closed" in error
    assert (await app.events.get(event.id)).attempts == 1


async def test_an_interrupted_attempt_is_not_made_again_too_late(app: Duly, clock: ManualClock) -> None:
    handler = Handler(app)
    event = await app.at(START, "x", expires=HOUR)
    [claimed] = await app.store.claim("gone", {"handler:x": 1}, MINUTE)
    assert claimed.id == event.id
    clock.advance(2 * HOUR)
    await app.tick()
    status, error, acts = await ended(app, event)
    assert (handler.calls, status, error) == (0, Status.SKIPPED, WITHIN_THE_HOUR)
    assert acts == ["interrupted", "skipped"]


async def test_a_transactional_handler_is_not_called_for_an_expired_event(app: Duly, clock: ManualClock) -> None:
    calls: list[Event] = []

    @app.on("x", transactional=True)
    async def handle(event: Event, _: object) -> None:
        calls.append(event)

    event = await app.at(START, "x", expires=HOUR)
    clock.advance(2 * HOUR)
    await app.tick()
    assert (calls, (await app.events.get(event.id)).status) == ([], Status.SKIPPED)


async def test_a_schedule_skips_what_is_found_too_late_and_goes_on(app: Duly, clock: ManualClock) -> None:
    handler = Handler(app, "digest")
    await app.every("digest", every("4h", start=START), "digest", expires="30m")
    clock.advance(5 * HOUR)
    await app.tick()
    [event] = [one for one in await app.events.find() if not one.head]
    assert (handler.calls, event.status, event.expires) == (0, Status.SKIPPED, HOUR / 2)
    schedule = await app.schedules.get("digest")
    assert schedule.next_at == START + 8 * HOUR
    clock.advance(3 * HOUR)
    await app.tick()
    assert handler.calls == 1


async def test_an_edit_of_a_schedule_reaches_its_next_event(app: Duly) -> None:
    await app.every("digest", cron("0 9 * * *"), "digest")
    [head] = await app.events.find()
    assert head.expires is None
    await app.every("digest", cron("0 9 * * *"), "digest", expires=HOUR)
    again = await app.events.get(head.id)
    assert (again.expires, again.expires_at) == (HOUR, again.due + HOUR)
    await app.every("digest", cron("0 9 * * *"), "digest")
    assert (await app.events.get(head.id)).expires is None


async def test_an_event_that_a_pause_holds_can_expire(app: Duly, clock: ManualClock) -> None:
    handler = Handler(app, "digest")
    await app.every("digest", every("4h", start=START), "digest", expires="30m")
    await app.schedules.pause("digest")
    clock.advance(5 * HOUR)
    await app.schedules.resume("digest", passed="fire")
    await app.tick()
    assert handler.calls == 0
    assert [one.status for one in await app.events.find() if not one.head] == [Status.SKIPPED]


async def test_a_timer_that_is_put_again_has_the_new_span(app: Duly) -> None:
    first = await app.put(START + HOUR, "x", key="k", expires=60)
    assert first.event.expires == MINUTE
    again = await app.put(START + HOUR, "x", key="k", expires=60)
    assert again.change == "unchanged"
    moved = await app.put(START + HOUR, "x", key="k", expires="2m")
    assert (moved.change, moved.event.expires) == ("moved", 2 * MINUTE)


async def test_an_expired_dead_letter_is_not_replayed(app: Duly, clock: ManualClock) -> None:
    handler = Handler(app)
    handler.failures = 1
    event = await app.at(START, "x", expires=HOUR, retry=Retry(max_attempts=1))
    await app.tick()
    clock.advance(2 * HOUR)
    with pytest.raises(Conflict, match="it expired at 2026-01-01T01:00:00Z and would be skipped"):
        await app.events.replay(event.id)
    assert (await app.events.get(event.id)).status is Status.FAILED
    assert (await app.events.replay_all()).events == 1
    await app.tick()
    assert (handler.calls, (await app.events.get(event.id)).status) == (1, Status.SKIPPED)


async def test_many_timers_have_their_own_spans(app: Duly) -> None:
    ids = await app.add_many([Timer(START, "x", expires=number) for number in (None, 1, 2.5, "3s", 4 * MINUTE)] * 50)
    spans = {(await app.events.get(id)).expires for id in ids}
    assert spans == {None, *(timedelta(seconds=number) for number in (1, 2.5, 3, 240))}


@pytest.mark.parametrize("wrong", [0, -1, "soon", "", "0s", timedelta(days=400), float("nan"), float("inf"), True, []])
async def test_an_expiry_that_is_no_span_is_refused_beside_all_else_that_is_wrong(app: Duly, wrong: object) -> None:
    with pytest.raises(Invalid) as refused:
        await app.at(START, "", expires=wrong)  # type: ignore[arg-type]
    assert {problem.path for problem in refused.value.problems} == {"type", "expires"}
    with pytest.raises(Invalid) as refused:
        await app.every("digest", cron("0 9 * * *"), "digest", expires=wrong)  # type: ignore[arg-type]
    assert [problem.path for problem in refused.value.problems] == ["expires"]
    assert await app.events.find() == []
