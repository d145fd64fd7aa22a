"""Dry runs over HTTP tell what Python's own tell."""

from typing import Any

import msgspec
import pytest

from duly import Duly, NotFound, Stale, cron
from duly.client import Client
from duly.records.figures.consequence import Consequence
from tests.make import DAY, START, a_user

DAILY: dict[str, Any] = {"rule": cron("0 9 * * *"), "type": "report", "timezone": "Europe/Brussels"}


def without_actor(told: Consequence | None) -> Consequence:
    """Without what names who would have acted."""
    assert told is not None
    first = tuple(msgspec.structs.replace(one, reason=None) for one in told.skipped.first)
    skipped = msgspec.structs.replace(told.skipped, first=first)
    return msgspec.structs.replace(told, skipped=skipped, message="")


async def test_dry_runs_of_schedules_tell_the_same(app: Duly, client: Client) -> None:
    stored = await app.schedules.put("daily", **DAILY)
    tokyo = {**DAILY, "timezone": "Asia/Tokyo"}
    for act, arguments in (
        ("put", {**tokyo, "expected": stored.tag}),
        ("pause", {"reason": "a test"}),
        ("skip", {}),
        ("reschedule", {"due": START + 3 * DAY}),
    ):
        here = await getattr(app.schedules, act)("daily", **arguments, dry_run=True)
        there = await getattr(client.schedules, act)("daily", **arguments, dry_run=True)
        assert without_actor(there.consequence) == without_actor(here.consequence), act
        assert there.next_at == here.next_at
    resumed = await client.schedules.resume("daily", dry_run=True)
    assert resumed.schedule.consequence == (await app.schedules.resume("daily", dry_run=True)).schedule.consequence
    deleted = await client.schedules.delete("daily", dry_run=True)
    assert deleted == await app.schedules.delete("daily", dry_run=True)
    assert deleted.cancelled.count == 1
    with pytest.raises(Stale):
        await client.schedules.delete("daily", expected="other", dry_run=True)
    with pytest.raises(NotFound):
        await client.schedules.skip("nobody", dry_run=True)
    assert await app.schedules.get("daily") == stored


async def test_dry_runs_of_users_tell_the_same(app: Duly, client: Client) -> None:
    user = await app.users.add(**a_user())
    there = await client.users.update(user.id, timezone="Asia/Tokyo", dry_run=True)
    here = await app.users.update(user.id, timezone="Asia/Tokyo", dry_run=True)
    assert (there.timezone, there.consequence) == (here.timezone, here.consequence)
    assert there.consequence is not None
    assert len(there.consequence.moved) == 1
    deleted = await client.users.delete(user.id, dry_run=True)
    assert deleted.consequence == (await app.users.delete(user.id, dry_run=True)).consequence
    assert await app.users.get(user.id) == user
