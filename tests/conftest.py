import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import Postgres, create_database

SERVER = "DULY_TEST_POSTGRES"  # from the xdist controller to its workers: the URL of the run's one server
SERVER_OF_THE_RUN = pytest.StashKey[Postgres]()

settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=200,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is not a bug
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure(config: pytest.Config) -> None:
    """Start the one server before the workers; without xdist, `postgres_server` does when first asked."""
    if config.getoption("dist", "no") != "no" and not config.option.collectonly:
        config.stash[SERVER_OF_THE_RUN] = Postgres().__enter__()
        os.environ[SERVER] = config.stash[SERVER_OF_THE_RUN].url


def pytest_unconfigure(config: pytest.Config) -> None:
    if server := config.stash.get(SERVER_OF_THE_RUN, None):
        server.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of the server that the whole run shares. A test of outages starts a `Postgres` of its own."""
    if url := os.environ.get(SERVER):
        yield url
    else:
        with Postgres() as server:
            yield server.url


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str) -> str:
    """A database that this worker has to itself."""
    return create_database(postgres_server, f"duly_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
