"""Pruning changes nothing of what schedules and users do later: two databases do the same after the same acts, though
one of them is pruned all the time."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duly import Duly, Event, NotFound, Rejected, cron, every
from duly.errors import DulyError
from duly.records.specs import Everything
from duly.testing import ManualClock
from tests.make import DAY, HOUR, MINUTE, START, a_user

RULES = (every("1h"), cron("0 9 * * *", timezone="Europe/Brussels"), cron("30 */6 * * *"), cron("0 0 1 * *"))
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"misfire": "all"},
    {"misfire": "skip"},
    {"overlap": "skip"},
    {"overlap": "queue"},
)
ZONES = ("America/New_York", "Asia/Tokyo", "Europe/London", "Pacific/Kiritimati")
BIRTHDAYS = ("1990-01-01", "1990-01-02", "1990-01-03", "1990-02-10", "1990-12-31")
Told = list[tuple[Any, ...]]


class Twin:
    """One of the two, and what it has delivered."""

    def __init__(self, file: Path, clock: ManualClock, retention: str) -> None:
        self.app = Duly(f"sqlite:///{file}", clock=clock, retention=retention, key_memory="36500d")
        self.told: Told = []
        for type in ("digest", "report", "birthday"):
            self.app.on(type)(self._deliver)

    async def _deliver(self, event: Event) -> Rejected | None:
        whose = event.owner or event.key
        named = (event.occurrence or "").partition("trigger:")[0]  # of a trigger, the id of the event follows
        self.told.append((event.type, whose, named, event.due, event.stands_for, event.payload))
        return Rejected("no") if event.payload == "fails" else None


def any_act(luck: random.Random) -> tuple[str, dict[str, Any]]:
    name = luck.choice(["a", "b"])
    act = luck.choice(
        [
            "put",
            "put",
            "pause",
            "resume",
            "skip",
            "reschedule",
            "trigger",
            "backfill",
            "delete",
            "user",
            "user",
            "timer",
        ]
    )
    return act, {
        "name": name,
        "rule": luck.choice(RULES),
        "payload": luck.choice(["one", "two", "fails"]),
        "policies": luck.choice(POLICIES),
        "depends": luck.random() < 0.3,
        "span": luck.choice([MINUTE, HOUR, 5 * HOUR, DAY, 3 * DAY]),
        "zone": luck.choice(ZONES),
        "born": luck.choice(BIRTHDAYS),
    }


async def do(twin: Twin, act: str, of: dict[str, Any], now: Any) -> Any:
    """Does an act; returns what was told."""
    app, name = twin.app, of["name"]
    try:
        match act:
            case "put":
                policies = of["policies"] | (
                    {"depends_on": {"schedule": "b", "within": "12h"}} if of["depends"] and name == "a" else {}
                )
                await app.schedules.put(name, of["rule"], "digest", of["payload"], **policies)
            case "pause" | "resume" | "skip" | "delete":
                await getattr(app.schedules, act)(name)
            case "reschedule":
                await app.schedules.reschedule(name, now + of["span"])
            case "trigger":
                await app.schedules.trigger(name)
            case "backfill":
                return len((await app.schedules.backfill(name, now - of["span"], now, limit=1000)).ids)
            case "user":
                await user(app, of)
            case "timer":
                return (await app.put(now + of["span"], "report", key=name)).change
    except DulyError as error:
        return type(error).__name__
    return act


async def user(app: Duly, of: dict[str, Any]) -> None:
    fields = {"date_of_birth": of["born"], "timezone": of["zone"]}
    try:
        there = await app.users.by_key("ada")
    except NotFound:
        await app.users.add(**a_user(key="ada", **fields))
    else:
        await app.users.update(there.id, **fields)


async def schedules(app: Duly) -> list[tuple[Any, ...]]:
    return [(one.name, one.next_at, one.last_at, one.held, one.halted) for one in await app.schedules.list()]


@pytest.mark.parametrize("seed", range(12))
async def test_what_is_pruned_is_missed_by_nobody(tmp_path: Path, clock: ManualClock, seed: int) -> None:
    luck, gone = random.Random(seed), 0
    kept, pruned = Twin(tmp_path / "kept.db", clock, "36500d"), Twin(tmp_path / "pruned.db", clock, "1s")
    async with kept.app, pruned.app:
        for _ in range(60):
            act, of = any_act(luck)
            mine = await do(kept, act, of, clock.now())
            assert (act, await do(pruned, act, of, clock.now())) == (act, mine)
            clock.advance(luck.choice([timedelta(0), MINUTE, HOUR, 7 * HOUR, DAY, 10 * DAY]))
            if luck.random() < 0.8:
                await kept.app.tick()
                await pruned.app.tick()
            gone += (await pruned.app.prune()).events
            assert sorted(pruned.told, key=str) == sorted(kept.told, key=str)
            assert await schedules(pruned.app) == await schedules(kept.app)
        assert gone > 0
        left = len(await pruned.app.store.find(Everything(), limit=10_000))
        assert left < len(await kept.app.store.find(Everything(), limit=10_000))
    assert clock.now() > START
