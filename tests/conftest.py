import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from duly import Duly
from duly.config import read_settings
from duly.stores.postgres.store import PostgresStore, PostgresTransaction
from duly.stores.sqlite.store import SqliteStore, SqliteTransaction
from duly.testing import ManualClock
from duly.wiring import open_store
from tests.debian import PROMETHEUS, RABBITMQ, unpacked
from tests.invariants import require_invariants
from tests.modest import ModestDatabase, modest_database
from tests.quick import DURATIONS, Durations, holds_only_slow, is_slow
from tests.servers import Postgres, create_database

SERVER = "DULY_TEST_POSTGRES"  # from the xdist controller to its workers: the URL of the run's one server
SERVER_OF_THE_RUN = pytest.StashKey[Postgres]()

FROM_DEBIAN = {"channels": RABBITMQ, "monitoring": PROMETHEUS}
"""The packages that the tests in a folder need."""

LONG = ("tests/chaos/", "tests/crash/", "tests/docs/", "tests/cli/test_demo.py", "tests/stores/test_plans.py")

settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=200,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is not a bug
)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what is slow: tests/quick.py has the rule")


def pytest_configure(config: pytest.Config) -> None:
    """Start the one server before the workers; without xdist, `postgres_server` does when first asked."""
    if config.getoption("quick"):
        settings.load_profile("quick")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(config))
    keep_bytecode(config)
    fetch_what_no_wheel_has(config)
    if config.getoption("dist", "no") != "no" and not config.option.collectonly:
        config.stash[SERVER_OF_THE_RUN] = Postgres().__enter__()
        os.environ[SERVER] = config.stash[SERVER_OF_THE_RUN].url


def fetch_what_no_wheel_has(config: pytest.Config) -> None:
    """Before any test, whose time it would take. If that fails, the tests that need it say so."""
    chosen = [Path(arg.partition("::")[0]).resolve() for arg in config.args]
    only_some = config.option.keyword or config.option.collectonly
    if only_some or hasattr(config, "workerinput") or not shutil.which("apt-get"):
        return
    for folder, package in FROM_DEBIAN.items():
        of = Path(__file__).with_name(folder)
        if any(path in (of, *of.parents) or of in path.parents for path in chosen):
            with suppress(RuntimeError):
                unpacked(package)


def keep_bytecode(config: pytest.Config) -> None:
    """Out of the way of whoever wants none beside the sources: or each of the many processes that tests start would
    compile all that it imports."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) and hasattr(config, "cache"):
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(config.cache.mkdir("bytecode")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("quick") and holds_only_slow(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that at the end no worker has to wait for another's."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    durations = config.cache.get(DURATIONS, {}) if config.cache is not None else {}
    for item in items:
        if is_slow(item, durations):
            item.add_marker("slow")
    if config.getoption("quick"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


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


# -- time


@pytest.fixture
def clock() -> ManualClock:
    """Starts at `tests.make.START` and moves when the test says so."""
    return ManualClock()


# -- databases: whatever asks for `url`, `store`, `duly` or `app` runs once on each store

STORES = ("sqlite", "postgres")
TABLES = (
    "events",
    "schedules",
    "templates",
    "journal",
    "users",
    "type_settings",
    "targets",
    "destinations",
    "api_keys",
    "requests",
    "fired_keys",
    "workers",
    "lanes",
    "upkeep",
    "ended_runs",
    "roll_ups",
    "sessions",
)
FEW_PAGES = 64
"""A table that has grown past these is made anew; the others are emptied, which is quicker."""


@pytest.fixture(autouse=True)
def files_agree(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test leaves in SQLite files of its own must not contradict itself."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None:
        for file in filter(Path.is_file, folder.glob("*.db")):
            require_invariants(request, f"sqlite:///{file}")


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without events."""
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("sqlite_file"), tmp_path / "duly.db")
        return f"sqlite:///{tmp_path}/duly.db"
    return str(request.getfixturevalue("clean_postgres"))


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without events, to be copied: that takes a third of what migrating anew would."""
    file = tmp_path_factory.mktemp("sqlite") / "duly.db"

    async def migrated() -> None:
        async with Duly(f"sqlite:///{file}"):
            pass

    in_a_thread = threading.Thread(target=lambda: asyncio.run(migrated()))  # a test's own loop may be running here
    in_a_thread.start()
    in_a_thread.join()
    return file


@pytest.fixture(params=STORES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that Duly has never seen."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/empty.db"
    return str(request.getfixturevalue("new_postgres")())


@pytest.fixture(scope="session")
def postgres_connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def clean_postgres(
    request: pytest.FixtureRequest, postgres_url: str, postgres_connection: psycopg.Connection[Any]
) -> Iterator[str]:
    """This worker's database, emptied: that takes a tenth of what migrating anew would, and less where there is little
    to empty. What a test leaves there must not contradict itself."""
    # The tables that tests make for their own effects live in public.
    left = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'public'"
    for (table,) in postgres_connection.execute(left).fetchall():
        postgres_connection.execute(f"DROP TABLE {table}")
    if postgres_connection.execute("SELECT to_regclass('duly.events')").fetchone() != (None,):
        for table in TABLES:
            [(pages,)] = postgres_connection.execute(f"SELECT pg_relation_size('duly.{table}') / 8192").fetchall()
            postgres_connection.execute(f"TRUNCATE duly.{table}" if pages > FEW_PAGES else f"DELETE FROM duly.{table}")
    yield postgres_url
    require_invariants(request, postgres_url, postgres_connection)


@pytest.fixture
def new_postgres(postgres_server: str) -> Iterator[Callable[[], str]]:
    """Makes databases that nobody has touched, and drops them after the test."""
    made: list[str] = []

    def new() -> str:
        made.append(f"duly_new_{uuid4().hex}")
        return create_database(postgres_server, made[-1])

    yield new
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def modest(postgres_server: str) -> Iterator[ModestDatabase]:
    """A database whose user may create no roles."""
    with modest_database(postgres_server) as database:
        yield database


AnyStore = SqliteStore | PostgresStore
AnyTransaction = SqliteTransaction | PostgresTransaction
OpenStore = Callable[[], Awaitable[AnyStore]]
OpenDuly = Callable[..., Awaitable[Duly]]


@pytest.fixture
async def opened(url: str, clock: ManualClock) -> AsyncIterator[OpenStore]:
    """Opens stores on the test's database, as so many processes would, and closes them after it."""
    async with AsyncExitStack() as stack:

        async def opened() -> AnyStore:
            store = open_store(read_settings({}, database_url=url), clock)
            await store.open(migrate=True)
            stack.push_async_callback(store.close)
            return store

        yield opened


@pytest.fixture
async def store(opened: OpenStore) -> AnyStore:
    """An empty store whose clock the test moves."""
    return await opened()


@pytest.fixture
async def duly(url: str, clock: ManualClock) -> AsyncIterator[OpenDuly]:
    """Opens `Duly` objects on the test's database: ``app = await duly(concurrency=1)``."""
    async with AsyncExitStack() as stack:

        async def duly(**options: Any) -> Duly:
            usual: dict[str, Any] = {"database_url": url, "clock": clock}
            app = Duly(**(usual | options))
            return await stack.enter_async_context(app)

        yield duly


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    """One of them, with nothing registered."""
    return await duly()
