import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from duly import Duly
from tests.brokers import NatsServer, RedisServer
from tests.client.serving import serving_in_a_thread
from tests.servers import create_database
from tests.timers.desk import Desk
from tests.worker.running_worker import until

PG_VARIABLES = {"database": "dbname", "user": "user", "host": "host", "port": "port"}


@pytest.fixture
def own_postgres_url(postgres_server: str) -> str:
    """An empty database for one example."""
    return create_database(postgres_server, f"docs_{uuid.uuid4().hex}")


@pytest.fixture
def own_test_database(postgres_server: str) -> str:
    """An empty database that is for tests by its name, as a URL without its scheme."""
    return create_database(postgres_server, f"docs_test_{uuid.uuid4().hex}").partition("://")[2]


@pytest.fixture
def postgres_variables(own_postgres_url: str) -> dict[str, str]:
    """The variables that name an empty database to a client of PostgreSQL."""
    known = conninfo_to_dict(own_postgres_url)
    return {f"PG{name.upper()}": str(known[key]) for name, key in PG_VARIABLES.items()}


@pytest.fixture
def own_nats_url() -> Iterator[str]:
    with NatsServer() as server:
        yield server.url


@pytest.fixture
def own_redis_url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url


@pytest.fixture
def own_server_url(tmp_path: Path) -> Iterator[str]:
    """A server of the HTTP API on an empty database."""
    with serving_in_a_thread(Duly(f"sqlite:///{tmp_path}/served.db")) as url:
        yield url


@pytest.fixture
def timer_service_url(tmp_path: Path) -> Iterator[str]:
    """A NATS server, with a timer service that takes commands."""
    with NatsServer() as server:
        service = subprocess.Popen(
            [sys.executable, "-m", "duly", "timer-service"],
            env=os.environ | {"TIMER_BROKER_URL": server.url, "TIMER_DB_PATH": str(tmp_path / "timers.db")},
        )
        try:
            asyncio.run(_is_there(server.url))
            yield server.url
        finally:
            service.terminate()
            service.wait(30)


async def _is_there(url: str) -> None:
    async with Desk(url) as desk:
        await until(desk.is_consumed, "the timer service takes commands")
