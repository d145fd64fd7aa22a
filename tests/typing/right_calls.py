"""Calls that type checkers accept. Never run: mypy reads it."""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import assert_type

from duly import Duly, Event, Retry, Schedule, Timer, User, cron, every, webhook
from duly.client import Client, KnownType
from duly.ports import Added, Page
from duly.rules.policies import DependsOn, Misfire
from duly.rules.recurrence import Dst
from duly.signals import PassEnded
from duly.sync import Sync, SyncClient

DUE = datetime.fromisoformat("2026-12-01T09:00Z")
HOUR = timedelta(hours=1)


async def awaited(duly: Duly | Client) -> None:
    assert_type(await duly.at(DUE, "x", {"n": 1}, key="k", tenant="acme", transaction=None), Event)
    assert_type(await duly.after(HOUR, "x", target=webhook("https://x.example"), retry=Retry(max_attempts=1)), Event)
    assert_type(await duly.put(DUE, "x", correlation_id="c", key=None), Added)
    assert_type(await duly.add_many([Timer(DUE, "x")]), list[str])
    assert_type(await duly.every("a", every("1h"), "x", timezone="UTC", jitter="5m", enabled=True, by="ada"), Schedule)
    await duly.schedules.put("a", {"cron": "@daily"}, "x", misfire="all", overlap="skip", mode="shadow", expected="t")
    await duly.schedules.put("a", cron("@daily"), "x", misfire=Misfire("skip"), depends_on=DependsOn("b", HOUR))
    await duly.schedules.put("a", cron("@daily"), "x", misfire={"policy": "all"}, depends_on=None, dst=Dst("skip"))
    await duly.schedules.preview(
        cron("@daily"), count=3, start=DUE, end="2027-01-01", exclude=["SAT", date(2026, 12, 24)]
    )
    await duly.schedules.preview("a", dst={"gap": "skip"}, jitter=HOUR, max_concurrent=3)
    assert_type(await duly.users.add(first_name="Ada", last_name="L", date_of_birth="1990-12-10", timezone="UTC"), User)
    await duly.users.add(
        first_name="A", last_name="L", date_of_birth=date(1990, 1, 1), timezone="UTC", attributes={"cat": "Tom"}, by="b"
    )
    assert_type(await duly.users.update("7", delivery_time=time(9), key=None, expected="t"), User)


def registered(duly: Duly) -> None:
    @duly.schedule(cron("@daily"), jitter=HOUR, overlap="queue", retry=Retry(max_attempts=1))
    def daily(event: Event) -> None: ...

    assert_type(duly.sync, Sync)


def synchronous(sync: Sync) -> None:
    with sync as duly, duly.transaction() as tx:
        assert_type(duly, Sync)
        assert_type(duly.at(DUE, "x", {"n": 1}, key="k", transaction=tx), Event)
        assert_type(duly.tick(within="5m"), PassEnded)
        tx.execute("DELETE FROM orders WHERE id = $1", 7)
    assert_type(sync.every("a", every("1h"), "x", tenant="acme", exclude="SAT"), Schedule)
    assert_type(sync.events.page(limit=5), Page)
    assert_type(sync.events.find(), list[Event])
    assert_type(sync.schedules.list(), list[Schedule])
    assert_type(sync.users.update("7", last_name="King", transaction=None), User)
    assert_type(sync.targets.signing_secret("https://x.example"), str)
    assert_type(sync.keys.made_any(), bool)


def synchronous_client(client: Client) -> None:
    assert_type(client.sync, SyncClient)
    with client.sync as duly:
        assert_type(duly.after(HOUR, "x", key="k"), Event)
        assert_type(duly.events.all(), Iterator[Event])
        assert_type(duly.event_types.list(), list[KnownType])
        assert_type(duly.schedules.trigger("a", wait=5), Event)
        assert_type(duly.users.get("7", tenant=None), User)
        synchronous(duly)


def refused(client: Client) -> None:
    client.sync.run()
