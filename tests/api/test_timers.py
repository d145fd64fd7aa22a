from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from duly import Delivered, Duly, Event, Invalid, Misuse, Rejected, Retry, Status, Timer
from duly.testing import ManualClock, Recorder
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, START


def greeter(app: Duly, type: str = "greet") -> list[Event]:
    """What the handler of a type was called with."""
    greeted: list[Event] = []

    @app.on(type)
    async def greet(event: Event) -> None:
        greeted.append(event)

    return greeted


async def test_an_event_fires_when_it_is_due_and_not_before(app: Duly, clock: ManualClock) -> None:
    greeted = greeter(app)
    event = await app.at(START + HOUR, "greet", {"name": "Ada"})
    assert (event.status, event.due, event.payload) == (Status.PENDING, START + HOUR, {"name": "Ada"})
    clock.set(START + HOUR - MICROSECOND)
    await app.tick()
    assert greeted == []
    clock.advance(MICROSECOND)
    await app.tick()
    assert [(e.id, e.payload, e.attempt) for e in greeted] == [(event.id, {"name": "Ada"}, 1)]
    await app.tick()
    assert len(greeted) == 1
    ended = await app.events.get(event.id)
    assert (ended.status, ended.executed, ended.lateness) == (Status.COMPLETED, START + HOUR, timedelta())


async def test_a_timer_that_is_due_already_fires_at_once(app: Duly) -> None:
    greeted = greeter(app)
    event = await app.at(START - 7 * DAY, "greet")
    await app.tick()
    assert [e.id for e in greeted] == [event.id]
    assert (await app.events.get(event.id)).lateness == 7 * DAY


@pytest.mark.parametrize("delay", ["1h", "60m", "1h 0s", 3600, 3600.0, timedelta(hours=1)])
async def test_a_delay_is_a_timedelta_or_seconds_or_text(app: Duly, clock: ManualClock, delay: Any) -> None:
    assert (await app.after(delay, "greet")).due == clock.now() + timedelta(hours=1)
    assert (await app.put(delay, "greet")).event.due == clock.now() + timedelta(hours=1)


@pytest.mark.parametrize("delay", ["soon", "", "3600", "-1h", float("nan"), 1e300, True, None, [1]])
async def test_a_delay_that_cannot_be_read_is_told_with_what_is_allowed_and_all_other_problems(
    app: Duly, delay: Any
) -> None:
    with pytest.raises(Invalid) as refused:
        await app.after(delay, "", key="\n")
    told = {problem.path: problem.message for problem in refused.value.problems}
    assert set(told) == {"delay", "type", "key"}
    allowed = "expected a timedelta, a number of seconds or a duration such as 30s, 1h30m, 90d or 250ms, "
    assert told["delay"] == allowed + ("and nothing was given" if delay is None else f"not {delay!r}")


async def test_a_delay_counts_from_the_stores_now(app: Duly, clock: ManualClock) -> None:
    greeted = greeter(app)
    clock.advance(MINUTE)
    event = await app.after(timedelta(minutes=30), "greet")
    assert event.due == START + MINUTE + 30 * MINUTE
    clock.set(event.due)
    await app.tick()
    assert len(greeted) == 1


async def test_a_due_time_may_be_in_any_zone(app: Duly) -> None:
    event = await app.at(datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9))), "greet")
    assert (event.due, event.due.tzinfo) == (START, UTC)


async def test_a_second_call_with_a_key_moves_the_first_timer(app: Duly) -> None:
    first = await app.at(START + HOUR, "greet", key="k")
    moved = await app.put(START + DAY, "greet", key="k")
    same = await app.put(START + DAY, "greet", key="k")
    assert (moved.event.id, moved.event.due, moved.change) == (first.id, START + DAY, "moved")
    assert same == (moved.event, "unchanged")
    assert await app.events.by_key("k") == moved.event


async def test_a_timer_that_has_fired_is_left_alone(app: Duly, clock: ManualClock) -> None:
    greeted = greeter(app)
    await app.at(START, "greet", key="k")
    clock.advance(MICROSECOND)
    await app.tick()
    clock.advance(HOUR)
    again, change = await app.put(clock.now(), "greet", key="k")
    await app.tick()
    assert change == "already_fired"
    assert (again.status, again.executed, len(greeted)) == (Status.COMPLETED, START + MICROSECOND, 1)


async def test_a_failure_is_tried_again_and_every_try_carries_the_same_id(app: Duly, clock: ManualClock) -> None:
    tries: list[Event] = []

    @app.on("flaky")
    async def flaky(event: Event) -> None:
        tries.append(event)
        if len(tries) < 3:
            raise ConnectionError(f"no answer {len(tries)}")

    event = await app.at(START, "flaky", retry=Retry(max_attempts=3, base=MINUTE, factor=1))
    for _ in range(4):
        await app.tick()
        clock.advance(2 * MINUTE)
    assert [(e.id, e.attempt, e.due) for e in tries] == [(event.id, n, START) for n in (1, 2, 3)]
    ended = await app.events.get(event.id)
    assert (ended.status, ended.attempts, ended.due) == (Status.COMPLETED, 3, START)
    assert [(entry.act, entry.detail) for entry in await app.events.history(event.id)] == [
        ("failed", "ConnectionError: no answer 1"),
        ("failed", "ConnectionError: no answer 2"),
        ("delivered", None),
    ]


async def test_attempts_that_are_spent_end_in_the_dead_letters(app: Duly, clock: ManualClock) -> None:
    @app.on("hopeless")
    async def hopeless(_: Event) -> None:
        raise ConnectionError("no answer")

    event = await app.at(START, "hopeless", retry=Retry(max_attempts=2, base=timedelta()))
    await app.tick()
    dead = await app.events.get(event.id)
    assert (dead.status, dead.attempts, dead.last_error) == (Status.FAILED, 2, "ConnectionError: no answer")


async def test_an_event_that_nobody_serves_waits(app: Duly, clock: ManualClock) -> None:
    event = await app.at(START, "unheard.of")
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.PENDING
    greeted = greeter(app, "unheard.of")
    await app.tick()
    assert len(greeted) == 1


async def test_a_target_names_the_channel(duly: OpenDuly) -> None:
    recorder = Recorder(Rejected("410"), Delivered())
    app = await duly(channels={"pigeon": recorder})
    for _ in range(2):
        await app.at(START, "greet", target={"pigeon": "the loft"})
        await app.tick()
    assert [event.target for event in recorder.events] == [{"pigeon": "the loft"}] * 2
    assert {event.status for event in await app.events.find()} == {Status.FAILED, Status.COMPLETED}


# -- many


async def test_many_timers_are_added_in_their_order(app: Duly, clock: ManualClock) -> None:
    greeted = greeter(app)
    ids = await app.add_many(Timer(START + n * MINUTE, "greet", n) for n in range(100))
    assert [(await app.events.get(ids[n])).payload for n in (0, 50, 99)] == [0, 50, 99]
    clock.advance(DAY)
    await app.tick()
    assert sorted(event.payload for event in greeted) == list(range(100))


async def test_adding_many_timers_with_keys_moves_those_that_are_there(app: Duly) -> None:
    first = await app.at(START + HOUR, "greet", key="a")
    ids = await app.add_many(
        [Timer(START, "greet"), Timer(START + DAY, "greet", key="a"), Timer(START, "greet", key="b")]
    )
    assert ids[1] == first.id
    assert (await app.events.get(first.id)).due == START + DAY
    assert len(await app.events.find()) == len(set(ids)) == 3


async def test_more_timers_than_one_statement_takes_are_added_together(app: Duly) -> None:
    ids = await app.add_many([Timer(START, "greet", key=f"k{n}" if n % 2 else None) for n in range(10_002)])
    assert len(set(ids)) == 10_002
    assert (await app.events.by_key("k10001")).id == ids[10_001]


async def test_one_bad_timer_of_many_refuses_them_all(app: Duly) -> None:
    with pytest.raises(Invalid) as refused:
        await app.add_many([Timer(START, "greet"), Timer(START, ""), Timer(START, "greet", object())])
    assert [problem.path for problem in refused.value.problems] == ["[1].type", "[2].payload"]
    assert await app.events.find() == []


async def test_adding_no_timers_is_fine(app: Duly) -> None:
    assert await app.add_many([]) == []


# -- what is wrong is said, all of it, and nothing is stored


@pytest.mark.parametrize(
    ("wrong", "paths"),
    [
        ({"due": datetime(2026, 1, 1)}, ["due"]),  # noqa: DTZ001 - that is the point
        ({"due": "tomorrow", "type": ""}, ["due", "type"]),
        ({"type": "a\x00", "tenant": "", "key": 7}, ["type", "tenant", "key"]),
        ({"payload": object(), "target": {"pigeon": 1}}, ["target", "payload"]),
        ({"retry": {"max_attempts": 3}}, ["retry"]),
        ({"correlation_id": "x" * 501}, ["correlation_id"]),
    ],
)
async def test_a_bad_timer_is_refused_with_all_its_problems(app: Duly, wrong: dict[str, Any], paths: list[str]) -> None:
    fine: dict[str, Any] = {"due": START, "type": "greet"}
    with pytest.raises(Invalid) as refused:
        await app.put(**(fine | wrong))
    assert sorted(problem.path for problem in refused.value.problems) == sorted(paths)
    assert await app.events.find() == []


async def test_a_duly_that_is_not_open_says_so(url: str) -> None:
    app = Duly(url)
    with pytest.raises(Misuse, match="async with duly"):
        await app.at(START, "greet")


async def test_a_duly_that_is_opened_twice_closes_with_the_last(url: str) -> None:
    app = Duly(url)
    async with app:
        async with app:
            await app.at(START, "greet")
        assert len(await app.events.find()) == 1
    async with app:
        assert len(await app.events.find()) == 1


async def test_a_type_has_one_handler(app: Duly) -> None:
    greeter(app)
    with pytest.raises(Misuse, match="'greet' already has a handler"):
        greeter(app)


async def test_a_transactional_handler_must_be_async(app: Duly) -> None:
    with pytest.raises(Misuse, match="must be `async def`"):
        app.on("greet", transactional=True)(lambda event, tx: None)
    with pytest.raises(Misuse, match="it must be more than 0"):
        app.on("greet", deadline=timedelta())(print)
