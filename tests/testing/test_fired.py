"""``fired``: what a test asserts about events, and what it is told when that is wrong."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from duly import Duly, Event, Failed, Misuse, Rejected, Retry
from duly.testing import fired, travel
from duly.testing.time_travel import Travel
from tests.make import DAY, HOUR, START


@pytest.fixture
async def time(app: Duly) -> AsyncIterator[Travel]:
    @app.on("remind")
    async def remind(event: Event) -> Failed | Rejected | None:
        answers: dict[str | None, Failed | Rejected] = {"busy": Failed("busy"), "no": Rejected("no such invoice")}
        return answers.get(event.payload)

    async with travel(app) as time:
        yield time


def told(duly: Duly, *args: Any, **facts: Any) -> list[str]:
    with pytest.raises(AssertionError) as caught:
        fired(duly, *args, **facts)
    return str(caught.value).splitlines()


async def test_it_returns_the_events_that_have_fired_in_their_order(app: Duly, time: Travel) -> None:
    await app.after(2 * HOUR, "remind", key="second")
    await app.after(HOUR, "remind", key="first")
    await time.by(DAY)
    assert [event.key for event in fired(app, "remind")] == ["first", "second"]
    assert [event.key for event in fired(app)] == ["first", "second"]
    [one] = fired(app, key="second", at=START + 2 * HOUR, payload=None, times=1)
    assert one.type == "remind"
    assert fired(app, "other", times=0) == []


async def test_it_tells_what_has_fired_and_what_waits(app: Duly, time: Travel) -> None:
    await app.after(HOUR, "remind", key="invoice-7")
    await app.after(3 * DAY, "remind", key="invoice-8")
    await time.by(DAY)
    assert told(app, "remind", key="invoice-8") == [
        "type='remind', key='invoice-8' should have completed at least once, and it did not.",
        "What fired:",
        "  2026-01-01T01:00:00Z  remind  key=invoice-7  null  completed",
        "What waits:",
        "  2026-01-04T00:00:00Z  remind  key=invoice-8  null",
        "It is 2026-01-02T00:00:00Z.",
    ]
    assert told(app, "remind", times=0)[0] == "type='remind' should never have completed, and it did once."
    assert told(app, "remind", times=2)[0] == "type='remind' should have completed 2 times, and it did once."
    assert told(app, "other", times=1)[0] == "type='other' should have completed once, and it did not."
    assert told(app, times=3)[0] == "any event should have completed 3 times, and it did once."


async def test_it_tells_of_nothing_where_there_is_nothing(app: Duly, time: Travel) -> None:
    await time.by(DAY)
    assert told(app)[1:3] == ["What fired: nothing", "What waits: nothing"]


async def test_it_says_that_time_was_not_moved_instead_of_what_waits(app: Duly, time: Travel) -> None:
    await app.after(HOUR, "remind")
    time.by(DAY).close()  # not awaited
    assert told(app, "remind")[1:] == [
        "What fired: nothing",
        "Time was not moved: it moves with time.by(…) and time.to(…), which asynchronous tests have to await.",
    ]


async def test_failed_attempts_are_no_firings_and_have_outcomes_of_their_own(app: Duly, time: Travel) -> None:
    await app.after(HOUR, "remind", "busy", retry=Retry(max_attempts=2, base=HOUR))
    await app.after(HOUR, "remind", "no")
    await app.after(HOUR, "remind", expires=HOUR, key="cancelled")
    await app.cancel("cancelled")
    await time.by(DAY)
    fired(app, times=0)
    assert len(fired(app, payload="busy", outcome="retried")) == 1
    assert {event.payload for event in fired(app, outcome="failed", times=2)} == {"busy", "no"}
    assert '  2026-01-01T01:00:00Z  remind  "no"  failed no such invoice' in told(app)


async def test_a_long_list_shows_its_end(app: Duly, time: Travel) -> None:
    for number in range(30):
        await app.after(HOUR, "remind", None, key=f"{number:02}")
    await time.by(DAY)
    lines = told(app, "other")
    assert lines[2:4] == ["  … and 10 more", "  2026-01-01T01:00:00Z  remind  key=10  null  completed"]
    assert len(lines) == 25


async def test_a_long_list_shows_the_type_that_is_asked_for_before_others(app: Duly, time: Travel) -> None:
    @app.on("letter")
    async def letter(event: Event) -> None: ...

    await app.after(HOUR, "letter")
    for number in range(30):
        await app.after(2 * HOUR, "remind", None, key=f"{number:02}")
    await app.after(3 * HOUR, "letter")
    await time.by(DAY)
    lines = told(app, "letter", times=1)
    assert lines[2:4] == ["  … and 12 more", "  2026-01-01T01:00:00Z  letter  null  completed"]
    assert lines[22] == "  2026-01-01T03:00:00Z  letter  null  completed"
    assert [" letter " in line for line in told(app, "remind", times=1)[3:23]] == [False] * 20


async def test_an_event_that_nobody_handles_is_told_apart_from_one_that_is_not_due(app: Duly, time: Travel) -> None:
    await app.after(3 * DAY, "remind")
    await app.after(HOUR, "remnid")
    await time.by(DAY)
    assert told(app, "remind")[2:5] == [
        "What waits:",
        "  2026-01-01T01:00:00Z  remnid  null  is due, and has no handler here",
        "  2026-01-04T00:00:00Z  remind  null",
    ]


async def test_misspelt_facts_and_outcomes_are_refused(app: Duly, time: Travel) -> None:
    with pytest.raises(Misuse, match="an event has no 'kye'; it has id, tenant"):
        fired(app, kye="invoice-7")
    with pytest.raises(Misuse, match="there is no outcome 'done'; the outcomes are completed, retried"):
        fired(app, outcome="done")


def test_a_duly_that_nobody_records_is_refused() -> None:
    with pytest.raises(Misuse, match="use the fixture `duly`"):
        fired(Duly("sqlite://"))
