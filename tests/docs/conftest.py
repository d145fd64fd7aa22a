import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import NatsServer
from tests.servers import create_database


@pytest.fixture
def own_postgres_url(postgres_server: str) -> str:
    """An empty database for one example."""
    return create_database(postgres_server, f"docs_{uuid.uuid4().hex}")


@pytest.fixture
def timer_service_url(tmp_path: Path) -> Iterator[str]:
    """A NATS server, with a timer service that has started."""
    with NatsServer() as server:
        service = subprocess.Popen(
            [sys.executable, "-m", "duly", "timer-service"],
            env=os.environ | {"TIMER_BROKER_URL": server.url, "TIMER_DB_PATH": str(tmp_path / "timers.db")},
            stderr=subprocess.PIPE,
        )
        try:
            assert service.stderr
            assert b"worker.started" in service.stderr.readline()
            yield server.url
        finally:
            service.terminate()
            service.communicate(timeout=30)
