"""Run by a test: each record has a field more, `colour`, and so has its table."""

import asyncio
import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from duly.records import api_key, event, history, schedule, target, user


def with_a_colour(module: Any, name: str) -> None:
    record = getattr(module, name)
    keyword_only = name not in ("Event", "Entry", "Known")
    more = msgspec.defstruct(
        name, [("colour", str | None, None)], bases=(record,), frozen=True, kw_only=keyword_only, module=module.__name__
    )
    setattr(module, name, more)


for module, name in (
    (event, "Event"),
    (event, "NewEvent"),
    (schedule, "Schedule"),
    (user, "User"),
    (target, "Target"),
    (target, "Known"),
    (history, "Entry"),
    (api_key, "ApiKey"),
):
    with_a_colour(module, name)

from duly.config import read_settings  # noqa: E402 - now, and not before, the stores learn what the records are
from duly.decide.series.due_head import Reshaped  # noqa: E402
from duly.ids import new_id, new_ids  # noqa: E402
from duly.records.specs import Everything  # noqa: E402
from duly.stores.postgres.bulk_copy import WORTH_COPYING  # noqa: E402
from duly.wiring import open_store  # noqa: E402

DUE = datetime(2020, 1, 1, tzinfo=UTC)
LANE = "handler:greet"
BULK = WORTH_COPYING + 1


def timer(colour: str, **fields: Any) -> Any:
    New: Any = event.NewEvent
    return New(
        **({"id": new_id(), "tenant": "t", "type": "greet", "lane": LANE, "due": DUE, "colour": colour} | fields)
    )


def head(colour: str, series: str, **fields: Any) -> Any:
    return timer(colour, series=series, occurrence="2020-01-01", head=True, scheduled=DUE, **fields)


def person(colour: str, **fields: Any) -> Any:
    names = {"first_name": "Ada", "last_name": "Lovelace", "date_of_birth": date(1990, 3, 15), "timezone": "UTC"}
    New: Any = user.User
    return New(**({"id": new_id(), "tenant": "t", "colour": colour} | names | fields))


async def main(url: str) -> None:
    store: Any = open_store(read_settings({}, database_url=url), None)
    await store.open(migrate=True)
    duly = "" if store.dialect == "sqlite" else "duly."
    async with store.begin() as tx:
        for table in ("events", "schedules", "users", "targets", "destinations", "api_keys"):
            await tx.execute(f"ALTER TABLE {duly}{table} ADD COLUMN colour text")
        await tx.execute(f"ALTER TABLE {duly}journal ADD COLUMN colour text DEFAULT 'noted'")
        await tx.execute(f"DROP VIEW {duly}history")
        await tx.execute(f"CREATE VIEW {duly}history AS SELECT * FROM {duly}journal")
    try:
        async with store.begin() as tx:
            await events(tx)
            await heads(tx)
            await people(tx)
            await others(tx)
            await tx.limit("t", "h", 1, None)
            await tx.execute(f"UPDATE {duly}destinations SET colour = 'known'")
            await known(tx)
    finally:
        await store.close()


async def events(tx: Any) -> None:
    await tx.add([timer("added")])
    await tx.put([timer("put", key="k")])
    [added] = await tx.put([timer("moved", key="k")])
    assert (added.change, added.event.colour) == ("moved", "moved"), added
    [added] = await tx.put([timer("moved", key="k")])
    assert (added.change, added.event.colour) == ("unchanged", "moved"), added
    claimed = await tx.claim("w", {LANE: 10}, timedelta(seconds=30))
    assert sorted(event.colour for event in claimed) == ["added", "moved"], claimed
    await tx.add([timer(f"bulk {nth}") for nth in range(BULK)])
    found = [event.colour for event in await tx.find(Everything(), limit=BULK)]
    assert sorted(found) == sorted(f"bulk {nth}" for nth in range(BULK)), found


async def heads(tx: Any) -> None:
    await tx.plant([head("planted", "schedule:x")])
    there = await tx.head("schedule:x")
    assert there.colour == "planted", there
    await tx.reshape([Reshaped(there.id, head("reshaped", "schedule:x"), "changed", "why")], "me")
    assert (await tx.head("schedule:x")).colour == "reshaped"


async def people(tx: Any) -> None:
    one = person("added")
    await tx.add_users([one], [], "me")
    assert (await tx.user(one.id)).colour == "added"
    await tx.change_users([msgspec.structs.replace(one, colour="changed")])
    assert (await tx.user(one.id)).colour == "changed"
    ids = new_ids(BULK)
    await tx.add_users(
        [person(f"bulk {id}", id=id) for id in ids],
        [head(f"head {id}", f"user:{id}:birthday", rule_json="{}") for id in ids],
        "me",
    )
    assert {one.colour for one in await tx.lock_users(ids)} == {f"bulk {id}" for id in ids}
    assert {one.colour for one in await tx.user_heads(ids)} == {f"head {id}" for id in ids}


async def others(tx: Any) -> None:
    Schedule: Any = schedule.Schedule
    one = Schedule(id=new_id(), tenant="t", name="s", type="greet", rule_json="{}", colour="put")
    await tx.put_schedule(one)
    assert (await tx.shown_schedule("t", "s")).colour == "put"
    await tx.put_schedule(msgspec.structs.replace(one, colour="again"))
    assert (await tx.schedule_named("t", "s")).colour == "again"

    Target: Any = target.Target
    hook = Target(id=new_id(), tenant="t", name="h", channel="webhook", spec_json='{"url":"https://a"}', colour="put")
    await tx.put_target(hook)
    [known] = await tx.destinations([("t", "h")])
    assert known.target.colour == "put", known
    await tx.put_target(msgspec.structs.replace(hook, colour="again"))
    assert (await tx.target("t", "h")).colour == "again"

    await tx.note([(one.id, "looked at", None)], "me")
    assert [entry.colour for entry in await tx.history(one.id)] == ["noted"]

    Key: Any = api_key.ApiKey
    scope = api_key.Scope.READ
    key = Key(id=new_id(), tenant="t", name="k", scope=scope, hint="duly_x", created=DUE, colour="added")
    await tx.add_key(key, "hash")
    found, _ = await tx.key_by_hash("hash")
    assert found.colour == "added", found


async def known(tx: Any) -> None:
    [found] = await tx.destinations([("t", "h")])
    assert (found.colour, found.target.colour) == ("known", "again"), found
    [found] = await tx.list_destinations("t", after=("", ""), limit=2)
    assert found.colour == "known", found
    assert (await tx.target("t", "h")).known.colour == "known"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
