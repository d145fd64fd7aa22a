"""Calls that type checkers refuse, each with the code of the error. Never run: mypy reads it."""

from datetime import datetime, timedelta

from duly import Duly, cron
from duly.client import Client
from duly.sync import Sync, SyncClient

DUE = datetime.fromisoformat("2026-12-01T09:00Z")


async def awaited(duly: Duly) -> None:
    await duly.at(DUE, "x", kye="k")  # error: call-arg
    await duly.at("tomorrow", "x")  # error: arg-type
    await duly.after(timedelta(hours=1), "x", retry=3)  # error: arg-type
    await duly.put(DUE, "x", tenant=7)  # error: arg-type
    await duly.every("a", cron("@daily"), "x", jiter="5m")  # error: call-arg
    await duly.every("a", cron("@daily"), "x", jitter=[])  # error: arg-type
    await duly.schedules.put("a", cron("@daily"), "x", misfire=True)  # error: arg-type
    await duly.schedules.preview("a", until=DUE)  # error: call-arg
    await duly.users.add(first_name="Ada", last_name="L", timezone="UTC")  # error: call-arg
    await duly.users.update("7", surname="King")  # error: call-arg
    await duly.users.update("7", first_name=None)  # error: arg-type
    duly.schedule(cron("@daily"), overlaps="skip")  # error: call-arg


async def asked_of_a_server(duly: Client) -> None:
    await duly.at(DUE, "x", kye="k")  # error: call-arg
    await duly.every("a", cron("@daily"), "x", jitter=[])  # error: arg-type
    await duly.schedules.put("a", cron("@daily"), "x", misfires="all")  # error: call-arg
    await duly.users.add(first_name="Ada")  # error: call-arg
    await duly.users.update("7", attributes="cat")  # error: arg-type


def synchronous(duly: Sync) -> None:
    duly.at(DUE, "x", kye="k")  # error: call-arg
    duly.events.find(limit="5")  # error: arg-type
    duly.events.all()  # error: attr-defined
    duly.schedules.put("a", cron("@daily"), "x", jitter=[])  # error: arg-type
    duly.users.update("7", surname="King")  # error: call-arg
    duly.keys.create("crm", scopes="read")  # error: call-arg
    duly.store.open()  # error: attr-defined
    duly.run()  # error: attr-defined
    duly.evnts.find()  # error: attr-defined


async def synchronous_client(duly: SyncClient) -> None:
    await duly.at(DUE, "x")  # error: misc
    duly.every("a", cron("@daily"), "x", jiter="5m")  # error: call-arg
    duly.schedules.trigger("a", wait="5s")  # error: arg-type
    duly.users.add(first_name="Ada", last_name="L", timezone="UTC")  # error: call-arg
    async for _ in duly.events.all():  # error: attr-defined
        pass
    duly.event_types.plan_with(None)  # error: attr-defined
