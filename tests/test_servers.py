import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from tests import servers
from tests.servers import Postgres


@pytest.fixture
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def ask(url: str, query: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
        return str(row[0]) if row else ""


def write(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement)


def test_each_worker_has_a_database_of_its_own(postgres_url: str) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    assert ask(postgres_url, "SELECT current_database()") == f"duly_{worker}"
    assert ask(postgres_url, "SHOW server_version").startswith("18.")


def test_what_was_committed_survives_a_kill(server: Postgres) -> None:
    url = server.create_database("orders")
    write(url, "CREATE TABLE paid AS SELECT 7 AS invoice")
    server.kill()
    with pytest.raises(psycopg.OperationalError):
        ask(url, "SELECT 1")
    server.start()
    assert ask(url, "SELECT invoice FROM paid") == "7"


def test_a_kill_cuts_off_a_client_in_the_middle_of_a_query(server: Postgres) -> None:
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(ask, server.url, "SELECT pg_sleep(60)")
        while ask(server.url, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0":
            pass
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            answer.result(timeout=30)


def test_a_stopped_server_starts_again_on_its_data(server: Postgres) -> None:
    write(server.url, "CREATE TABLE paid AS SELECT 7 AS invoice")
    server.stop()
    server.start()
    assert ask(server.url, "SELECT invoice FROM paid") == "7"


def test_a_durable_server_waits_for_the_disk() -> None:
    with Postgres(durable=True, settings={"work_mem": "8MB"}) as server:
        assert ask(server.url, "SHOW fsync") == "on"
        assert ask(server.url, "SHOW synchronous_commit") == "on"
        assert ask(server.url, "SHOW full_page_writes") == "on"
        assert ask(server.url, "SHOW work_mem") == "8MB"


def test_a_closed_server_leaves_nothing_behind() -> None:
    with Postgres() as server:
        folder = server.log.parent
        server.kill()
        server.start()
    assert not folder.exists()
    assert not processes_in(folder)


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="no_such_setting"), Postgres(settings={"no_such_setting": "1"}):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_binaries_that_the_server_cannot_read_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_open_to_all", lambda paths: "postgres" not in [path.name for path in paths])
    with Postgres() as server:
        folder = server.log.parent
        assert ask(server.url, "SELECT 1") == "1"
        assert [Path(process.exe()).is_relative_to(folder) for process in processes_in(folder)] == [True]


def test_a_server_does_not_outlive_a_killed_owner() -> None:
    program = """if True:
        from tests.servers import Postgres
        with Postgres() as server:
            print(server.log.parent, flush=True)
            input()
    """
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert processes_in(folder)
        owner.kill()
    deadline = time.monotonic() + 30
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.02)  # the watcher works in real time
    assert not folder.exists()
    assert not processes_in(folder)


def processes_in(folder: Path) -> list[psutil.Process]:
    """The server whose data is in *folder*; its children have other command lines."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(folder / "data") in (process.info["cmdline"] or [])
    ]


def test_a_frozen_server_is_silent_and_goes_on_where_it_was(server: Postgres) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        server.freeze()
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as line:  # the kernel accepts it
            line.settimeout(0.5)
            line.sendall(bytes.fromhex("00000008 04d2162f"))  # may we speak TLS? A server answers N or S
            with pytest.raises(TimeoutError):
                line.recv(1)
        server.thaw()
        assert connection.execute("SELECT 1").fetchone() == (1,)
