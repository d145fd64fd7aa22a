"""``Created`` is told of every event that comes into being, whoever asked for it, once that is committed."""

import contextlib
from collections.abc import Sequence
from datetime import timedelta

import pytest

from duly import Duly, Timer, cron, every
from duly.engine.series.successors import Successors
from duly.signals import Created
from duly.testing import ManualClock
from tests.api.greeting import greetings
from tests.make import DAY, HOUR, START, a_user


class Heard(list[Created]):
    """What was told, and what the database has."""

    def counts(self) -> dict[tuple[str, str], int]:
        """How many of each type and tenant; and empties this."""
        counts = {(one.type, one.tenant): len(one.ids) for one in self}
        assert len(counts) == len(self)
        self.clear()
        return counts


@pytest.fixture
def heard(app: Duly) -> Heard:
    heard = Heard()
    app.observe(heard.append, Created)
    app.on("report")(_do_nothing)
    return heard


async def _do_nothing(_: object) -> None: ...


async def test_observers_are_told_of_created_timers_with_type_and_tenant(app: Duly, heard: Heard) -> None:
    first = await app.after(HOUR, "greet")
    assert heard == [Created([first.id], "greet", "default", "handler:greet")]
    heard.clear()
    await app.after(HOUR, "greet", key="one", tenant="acme")
    assert heard.counts() == {("greet", "acme"): 1}
    await app.after(2 * HOUR, "greet", key="one", tenant="acme")
    assert heard == [], "it was moved"
    await app.add_many([Timer(HOUR, "greet"), Timer(HOUR, "greet"), Timer(HOUR, "bill", tenant="acme")])
    assert heard.counts() == {("greet", "default"): 2, ("bill", "acme"): 1}
    await app.add_many([Timer(HOUR, "greet", key="two"), Timer(HOUR, "greet", key="one", tenant="acme")])
    assert heard.counts() == {("greet", "default"): 1}


async def test_observers_are_told_of_created_heads_triggers_and_backfills(
    app: Duly, heard: Heard, clock: ManualClock
) -> None:
    await app.every("daily", cron("0 9 * * *"), "report", tenant="acme")
    assert heard.counts() == {("report", "acme"): 1}
    clock.set(START + DAY)
    await app.tick()
    assert heard.counts() == {("report", "acme"): 1}, "the one that follows"
    triggered = await app.schedules.trigger("daily", tenant="acme")
    assert heard == [Created([triggered.id], "report", "acme", "handler:report")]
    heard.clear()
    await app.schedules.backfill("daily", START - 3 * DAY, START, tenant="acme")
    assert heard.counts() == {("report", "acme"): 3}
    await app.schedules.skip("daily", tenant="acme")
    assert heard.counts() == {("report", "acme"): 1}


async def test_a_head_that_a_claim_plants_is_told_though_it_is_never_completed(
    app: Duly, heard: Heard, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Successors, __: Sequence[str]) -> None: ...

    monkeypatch.setattr(Successors, "_complete", fail)
    await app.every("hourly", every("1h", start=START), "report")
    heard.clear()
    for hour in (1, 2, 3):
        clock.set(START + hour * HOUR)
        await app.tick()
        assert heard.counts() == {("report", "default"): 1}


async def test_an_occurrence_that_is_passed_over_was_never_created(app: Duly, heard: Heard, clock: ManualClock) -> None:
    await app.every("hourly", every("1h", start=START), "report")
    heard.clear()
    await app.schedules.reschedule("hourly", START + 5 * HOUR)
    assert heard == []


async def test_observers_are_told_of_created_events_of_users(app: Duly, heard: Heard, clock: ManualClock) -> None:
    greetings(app)
    await app.users.add(**a_user(date_of_birth="1990-01-05", timezone="UTC"), tenant="acme")
    assert heard.counts() == {("birthday", "acme"): 1}
    clock.set(START + 10 * DAY)
    await app.tick()
    assert heard.counts() == {("birthday", "acme"): 1}, "next year's"
    rows = [a_user(key=str(number)) for number in range(3)]
    assert (await app.users.import_(rows, tenant="acme")).added == 3
    assert sum(heard.counts().values()) == 3


async def test_no_creation_is_told_before_the_commit_nor_without_one(app: Duly, heard: Heard) -> None:
    async with app.transaction() as tx:
        await app.after(HOUR, "greet", transaction=tx)
        await app.every("daily", cron("0 9 * * *"), "report", transaction=tx)
        assert heard == []
    assert heard.counts() == {("greet", "default"): 1, ("report", "default"): 1}
    with contextlib.suppress(ZeroDivisionError):
        async with app.transaction() as tx:
            await app.after(HOUR, "greet", transaction=tx)
            raise ZeroDivisionError
    assert heard == []


async def test_what_observe_returns_ends_the_observation(app: Duly) -> None:
    one, other = Heard(), Heard()
    end, _ = app.observe(one.append, Created), app.observe(other.append, Created)
    await app.after(timedelta(hours=1), "greet")
    end()
    end()
    await app.after(timedelta(hours=1), "greet")
    assert (len(one), len(other)) == (1, 2)
