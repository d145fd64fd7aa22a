"""The timer module uses the tables of events, and nothing of users, schedules and targets."""

import ast
import asyncio
import re
from pathlib import Path

import pytest

import duly
from duly import Duly, Status
from duly.signals import Completed
from tests.brokers import NatsServer
from tests.timers.conftest import Serve, outage
from tests.timers.desk import Desk, command, in_seconds
from tests.worker.running_worker import until

OTHERS = ("schedules", "users", "targets", "destinations")
"""Tables that are none of its business."""

MODULES = (
    "timer_service/messages.py",
    "timer_service/commands.py",
    "engine/destinations/broker_health.py",
    "channels/brokers/nats_commands.py",
    "channels/brokers/nats_streams.py",
    "timer_service/service.py",
    "cli/processes/timer_service.py",
)


async def drop_others(url: str) -> None:
    async with Duly(url) as app, app.transaction() as tx:
        for table in OTHERS:
            await tx.execute(f"DROP TABLE {'' if url.startswith('sqlite') else 'duly.'}{table}")


@pytest.mark.broken_rows("it drops the tables that they are compared with")
async def test_the_timer_service_works_where_there_are_no_other_tables(
    server: NatsServer, desk: Desk, serve: Serve, url: str
) -> None:
    """All that it does: taking in, moving, firing, waiting for a broker, and going on after a crash."""
    await drop_others(url)
    async with serve() as served:
        await desk.send(
            command("moved", in_seconds(3600)), command("due"), command("after the outage", in_seconds(1.5))
        )
        await desk.send(command("moved", in_seconds(0.5)), b"bad")
        await desk.events(2)
        await desk.rejected(1)
        async with outage(server):
            await asyncio.sleep(1.5)
        await desk.events(3)
        await until(lambda: len(served.told.of(Completed)) == 3, "all are settled")

    table = "events" if url.startswith("sqlite") else "duly.events"
    async with Duly(url) as app, app.transaction() as tx:  # what a crash leaves behind
        await tx.execute(f"UPDATE {table} SET status = 'PROCESSING', unsettled = 1, ready = due, settled = NULL")
    async with serve() as served:
        await until(lambda: len(served.told.of(Completed)) == 3, "what was interrupted is published again")
        rows = await served.duly.events.find(limit=10)
        assert {(row.status, row.interruptions) for row in rows} == {(Status.COMPLETED, 1)}
    assert len(await desk.events()) == 3, "under the same ids"


@pytest.mark.parametrize("module", MODULES)
def test_modules_of_the_timer_service_import_nothing_of_other_parts(module: str) -> None:
    source = (Path(duly.__file__).parent / module).read_text(encoding="utf-8")
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            module_name = str(node.module).rpartition(".")[2]  # the health of brokers is in a folder with destinations
            imported |= {f"{module_name}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
    words = {word for name in imported for word in re.split(r"[._]", name.lower())}
    assert not words & {"user", "users", "schedules", "target", "targets", "destinations", "directory", "heads"}
