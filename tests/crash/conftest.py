import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from duly import Duly
from tests.crash.supervisor import Supervisor
from tests.invariants import require_invariants
from tests.servers import create_database


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of this test's own: processes may outlive its end by a moment. What they leave there must not
    contradict itself."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/duly.db"
    else:
        url = create_database(request.getfixturevalue("postgres_server"), f"crash_{uuid.uuid4().hex}")
        yield url
        require_invariants(request, url)


@pytest.fixture
async def app(url: str) -> AsyncIterator[Duly]:
    """For looking and adding, in real time; the work is done by other processes."""
    async with Duly(url) as app:
        yield app


Supervise = Callable[..., Supervisor]


@pytest.fixture
def supervise(app: Duly, tmp_path: Path) -> Iterator[Supervise]:
    """Makes the supervisor of workers with these options; they end with the test, whatever becomes of it."""
    made: list[Supervisor] = []

    def supervise(**options: Any) -> Supervisor:
        made.append(Supervisor(app, tmp_path, **options))
        return made[-1]

    yield supervise
    for supervisor in made:
        supervisor.end()
