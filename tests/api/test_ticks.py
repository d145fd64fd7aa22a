"""What a tick says of itself."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Event, Failed, Rejected, Timer, Unreachable
from duly.observers.logs import Line
from duly.ports.transactions import Transaction
from duly.signals import PassEnded
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, LANE, LEASE, MICROSECOND, MINUTE, START, make_new

NOW = timedelta()


@pytest.fixture(autouse=True)
def greet(app: Duly) -> list[Event]:
    """A handler that answers with the payload's outcome; what it was given."""
    greeted: list[Event] = []
    outcomes = {"busy": Failed("503"), "gone": Rejected("410"), "down": Unreachable("no route", HOUR)}

    @app.on("greet")
    async def greet(event: Event) -> Any:
        greeted.append(event)
        return outcomes.get(event.payload)

    return greeted


def counts(passed: PassEnded) -> tuple[int, int, int]:
    return passed.processed, passed.retried, passed.failed


@pytest.mark.parametrize("down", [HOUR, DAY, 7 * DAY], ids=["an hour", "a day", "a week"])
async def test_a_tick_after_an_outage_does_all_and_says_how_late(
    app: Duly, clock: ManualClock, down: timedelta
) -> None:
    await app.add_many(Timer(due, "greet") for due in (START, START + down / 2, START + down, START + down))
    clock.advance(down)
    passed = await app.tick()
    assert counts(passed) == (4, 0, 0)
    assert (passed.late, passed.recovery) == (2, True)
    assert (passed.average_lateness, passed.greatest_lateness) == (down * 3 / 8, down)
    assert NOW < passed.duration < HOUR, "it took its time by the clock on the wall, not by the moved one"


async def test_a_tick_counts_failed_events_beside_completed_ones(app: Duly, greet: list[Event]) -> None:
    await app.add_many(Timer(START, "greet", payload) for payload in ("fine", "busy", "fine", "gone", "fine"))
    passed = await app.tick()
    assert counts(passed) == (3, 1, 1)
    assert (passed.late, passed.recovery, passed.average_lateness) == (0, False, NOW)
    assert len(greet) == 5


async def test_a_tick_with_nothing_due_has_all_figures_at_zero(app: Duly) -> None:
    await app.at(START + HOUR, "greet")
    passed = await app.tick()
    assert counts(passed) == (0, 0, 0)
    assert (passed.late, passed.recovery) == (0, False)
    assert passed.average_lateness == passed.greatest_lateness == NOW
    assert passed.worker


@pytest.mark.parametrize(("by", "late"), [(MINUTE, 0), (MINUTE + MICROSECOND, 1)])
async def test_the_setting_says_from_when_on_an_event_is_late(
    duly: OpenDuly, clock: ManualClock, by: timedelta, late: int
) -> None:
    app = await duly(late_after="1m")

    @app.on("greet")
    async def greet(_: Event) -> None: ...

    await app.at(START, "greet")
    clock.advance(by)
    passed = await app.tick()
    assert (passed.processed, passed.late, passed.recovery) == (1, late, bool(late))


async def test_the_figures_of_each_tick_begin_anew(app: Duly, clock: ManualClock) -> None:
    await app.at(START, "greet")
    clock.advance(DAY)
    assert (await app.tick()).recovery
    await app.at(START + DAY, "greet")
    passed = await app.tick()
    assert (passed.processed, passed.recovery, passed.greatest_lateness) == (1, False, NOW)


async def test_an_event_that_is_given_back_is_neither_processed_nor_failed(app: Duly, clock: ManualClock) -> None:
    await app.at(START, "greet", "down")
    clock.advance(DAY)
    passed = await app.tick()
    assert (counts(passed), passed.late) == ((0, 0, 0), 0)


async def test_a_verdict_that_came_too_late_is_not_counted(app: Duly, clock: ManualClock) -> None:
    @app.on("slow")
    async def slow(_: Event) -> None:
        clock.advance(DAY)
        await app.store.claim_interrupted("another", ["handler:slow"], DAY)

    await app.add_many([Timer(START, "slow"), Timer(START, "greet")])
    assert counts(await app.tick()) == (1, 0, 0)


async def test_an_event_that_was_interrupted_too_often_is_counted_as_failed(
    app: Duly, clock: ManualClock, greet: list[Event]
) -> None:
    await app.store.add([make_new()])
    await app.store.claim("vanished", {LANE: 1}, LEASE)
    for _ in range(4):
        clock.advance(LEASE)
        await app.store.claim_interrupted("vanished", [LANE], LEASE)
    clock.advance(LEASE)
    passed = await app.tick()
    assert counts(passed) == (0, 0, 1)
    assert (passed.late, passed.average_lateness) == (0, NOW), "nobody has begun it"
    assert greet == []


async def test_events_of_transactional_handlers_are_counted(app: Duly, clock: ManualClock) -> None:
    @app.on("close", transactional=True)
    async def close(event: Event, _tx: Transaction) -> Any:
        return Rejected("410") if event.payload == "gone" else None

    await app.add_many(Timer(START, "close", payload) for payload in ("fine", "gone", "fine"))
    clock.advance(HOUR)
    passed = await app.tick()
    assert counts(passed) == (2, 0, 1)
    assert (passed.late, passed.average_lateness) == (3, HOUR)


async def test_a_transactional_handler_that_lost_its_claim_is_not_counted(
    app: Duly, clock: ManualClock, duly: OpenDuly
) -> None:
    if app.store.dialect == "sqlite":
        return  # nobody else can claim while a transaction is open
    other = await duly()

    @app.on("close", transactional=True)
    async def close(_: Event, _tx: Transaction) -> None:
        clock.advance(DAY)
        assert await other.store.claim_interrupted("another", ["handler:close"], HOUR)

    await app.at(START, "close")
    assert counts(await app.tick()) == (0, 0, 0)


async def test_observers_are_told_the_figures_that_the_caller_of_a_tick_gets(app: Duly) -> None:
    heard: list[PassEnded] = []
    app.observe(heard.append, PassEnded)
    await app.at(START, "greet")
    assert [await app.tick(), await app.tick()] == heard


# -- in the log


def lines(caplog: pytest.LogCaptureFixture, act: str) -> list[tuple[int, dict[str, Any]]]:
    told = [(record.levelno, record.msg) for record in caplog.records]
    return [(level, line.facts) for level, line in told if isinstance(line, Line) and line.act == act]


@pytest.mark.parametrize(
    ("payload", "late", "level"),
    [
        ("fine", NOW, logging.DEBUG),
        ("fine", HOUR, logging.INFO),
        ("busy", NOW, logging.INFO),
        ("gone", NOW, logging.INFO),
    ],
)
async def test_a_tick_is_logged_when_something_went_wrong(
    app: Duly, clock: ManualClock, caplog: pytest.LogCaptureFixture, payload: str, late: timedelta, level: int
) -> None:
    await app.at(START, "greet", payload)
    clock.advance(late)
    with caplog.at_level(logging.DEBUG, "duly"):
        passed = await app.tick()
    assert lines(caplog, "worker.pass") == [
        (
            level,
            {
                "worker": passed.worker,
                "processed": passed.processed,
                "retried": passed.retried,
                "failed": passed.failed,
                "late": passed.late,
                "average_lateness": late.total_seconds(),
                "greatest_lateness": late.total_seconds(),
                "recovery": passed.recovery,
                "duration": passed.duration.total_seconds(),
            },
        )
    ]


@pytest.mark.parametrize(("late", "level"), [(HOUR, logging.INFO), (HOUR + MICROSECOND, logging.WARNING)])
async def test_the_log_line_of_a_late_event_says_when_it_was_due(
    app: Duly, clock: ManualClock, caplog: pytest.LogCaptureFixture, late: timedelta, level: int
) -> None:
    await app.at(START, "greet")
    clock.advance(late)
    with caplog.at_level(logging.INFO, "duly"):
        await app.tick()
    [(logged, facts)] = lines(caplog, "event.late")
    assert (logged, facts["due"], facts["late"]) == (level, "2026-01-01T00:00:00Z", late.total_seconds())


async def test_an_event_that_a_tick_has_done_is_not_done_again_by_the_next(app: Duly, greet: list[Event]) -> None:
    for number in range(3):
        await app.after(NOW, "greet", number)
        await app.tick()
    assert [event.payload for event in greet] == [0, 1, 2]
