"""A role for the timer service alone, on PostgreSQL."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from duly import Duly
from duly.signals import Completed
from tests.timers.conftest import Serve
from tests.timers.desk import Desk, command
from tests.worker.running_worker import until


@pytest.fixture
def url(new_postgres: Callable[[], str]) -> str:
    return new_postgres()


async def test_a_role_needs_rights_on_the_tables_of_events_alone(desk: Desk, serve: Serve, url: str) -> None:
    async with Duly(url):
        pass
    role = f"timers_{random.getrandbits(48):x}"
    owner = await asyncpg.connect(url)
    try:
        await owner.execute(f"CREATE ROLE {role} LOGIN")
        for grant in granted():
            await owner.execute(grant.replace("timers", role))
        async with serve(database_url=url.replace("postgres@", f"{role}@")) as served:
            await desk.send(command("s1"))
            await desk.events(1)
            await until(lambda: served.told.of(Completed), "it is settled")
        assert await owner.fetchval("SELECT state FROM duly.timer_schedules") == "Reached"
    finally:
        await owner.execute(f"DROP OWNED BY {role}")
        await owner.execute(f"DROP ROLE {role}")
        await owner.close()


def granted() -> list[str]:
    """What the documentation says that it needs."""
    page = (Path(__file__).parents[2] / "docs/timer-service.md").read_text(encoding="utf-8")
    return re.findall(r"^GRANT .*? TO timers;", page, re.MULTILINE)
