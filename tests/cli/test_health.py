"""``duly worker --health``: what probes of an orchestrator are told."""

import http.client
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import psutil
import pytest

from duly import Misuse
from duly.cli.processes import listener
from duly.cli.processes.listener import read_place
from tests.cli.conftest import Process, Shell, Spawn, wait_until
from tests.servers import Postgres


class Told(NamedTuple):
    status: int
    body: Any


class Probe:
    """A worker's listener."""

    def __init__(self, worker: Process) -> None:
        self.worker = worker
        found = wait_until(
            lambda: re.search(r"address=http://([^:]+):(\d+)", worker.output), told=lambda: worker.output
        )
        self.host, self.port = found[1], int(found[2])

    def __call__(self, path: str, method: str = "GET") -> Told:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
            return Told(answer.status, msgspec.json.decode(body) if body else None)
        finally:
            connection.close()

    def raw(self, sent: bytes) -> bytes:
        place = self.host, self.port
        with suppress(ConnectionResetError), socket.create_connection(place, timeout=10) as connection:
            connection.sendall(sent)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        return b""

    def becomes(self, status: int, reason: str = "") -> Told:
        def told() -> Told | None:
            found = self("/readyz")
            return found if found.status == status and reason in found.body.get("reason", "") else None

        found: Told = wait_until(told, told=lambda: f"{self('/readyz')}; {self.worker.output}")
        return found


Watch = Callable[..., Probe]


@pytest.fixture
def watch(on: Shell, url: str, spawn: Spawn) -> Watch:
    def watch(*words: object, **variables: str) -> Probe:
        usual = {"DULY_DATABASE_URL": url}
        return Probe(spawn("worker", "--app", "shop", "--health", "0", *words, **(usual | variables)))

    return watch


def test_a_worker_is_alive_and_becomes_ready_when_its_loop_has_passed(watch: Watch) -> None:
    probe = watch()
    assert probe("/healthz") == (200, {"status": "alive"})
    assert probe.becomes(200).body == {"status": "ready"}
    assert probe("/readyz?verbose=1", "HEAD") == (200, None)
    assert probe.host == "127.0.0.1"
    assert probe.worker.stop() == 0


def test_a_worker_that_drains_is_alive_and_not_ready(on: Shell, watch: Watch) -> None:
    on.at("now", "--type", "slow")
    probe = watch()
    probe.becomes(200)
    wait_until(on.told)
    probe.worker.inner.send_signal(signal.SIGTERM)
    assert probe.becomes(503, "the worker stops").body["status"] == "not ready"
    assert probe("/healthz").status == 200
    on.write("finish", "")
    assert probe.worker.wait() == 0


def test_a_worker_whose_database_is_away_is_alive_and_not_ready_until_it_is_back(shell: Shell, spawn: Spawn) -> None:
    with Postgres() as server:
        url = server.create_database("away")
        shell("migrate", "--db", url)
        probe = Probe(spawn("worker", "--app", "shop", "--health", "0", DULY_DATABASE_URL=url))
        probe.becomes(200)
        server.freeze()  # it takes connections, and answers nothing
        began = time.monotonic()
        assert probe("/readyz").status == 503 or probe.becomes(503)
        assert time.monotonic() - began < 10
        assert probe("/healthz").status == 200
        server.thaw()
        probe.becomes(200)
        server.stop()
        probe.becomes(503, "the database is not available")
        server.start()
        probe.becomes(200)


def test_a_worker_that_waits_for_its_database_from_the_start_is_alive_and_not_ready(shell: Shell, spawn: Spawn) -> None:
    url = "postgresql://ada@127.0.0.1:1/x"
    probe = Probe(spawn("worker", "--app", "shop", "--health", "0", DULY_DATABASE_URL=url))
    assert probe("/healthz").status == 200
    assert probe.becomes(503).body["reason"] == "the database is not available"
    assert probe.worker.stop() == 0


def test_a_parent_is_ready_when_all_its_processes_are(watch: Watch) -> None:
    probe = watch("--processes", 2)
    assert probe("/healthz").status == 200
    probe.becomes(200)
    [one, other] = [child.pid for child in psutil.Process(probe.worker.pid).children()]
    psutil.Process(one).suspend()
    assert probe.becomes(503).body["reason"] == f"process {one}: it does not answer"
    psutil.Process(one).resume()
    probe.becomes(200)
    psutil.Process(other).kill()
    probe.becomes(503, "1 of its processes do not run")
    probe.becomes(200)  # it was started again
    assert probe.worker.stop() == 0


def test_other_requests_are_refused_and_harm_nothing(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = watch()
    assert probe("/metrics").status == 404
    assert probe("/healthz", "POST").status == 405
    assert b" 400 " in probe.raw(b"nonsense\r\n\r\n")
    assert b" 200 " not in probe.raw(b"GET /" + b"x" * 20_000)  # it may be cut off before it has read the answer
    assert probe.raw(b"GET /healthz HTTP/1.1\r\nAllow: \xff\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
    silent = [socket.create_connection((probe.host, probe.port)) for _ in range(listener.MOST_CONNECTIONS)]
    assert probe.raw(b"GET /healthz HTTP/1.1\r\n\r\n") == b""  # too many at once
    for connection in silent:
        connection.close()
    wait_until(lambda: b" 200 " in probe.raw(b"GET /healthz HTTP/1.1\r\n\r\n"))


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("8081", ("127.0.0.1", 8081)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:80", ("::1", 80)),
        ("h:65535", ("h", 65535)),
    ],
)
def test_a_port_is_on_loopback_unless_a_host_is_given(written: str, place: tuple[str, int]) -> None:
    assert read_place(written, "--health") == place


@pytest.mark.parametrize("written", ["", "x", ":80", "h:", "65536", "-1", "h:٣", "[]:1"])
def test_what_is_no_port_is_refused(written: str) -> None:
    with pytest.raises(Misuse, match=r"--health .* cannot be used"):
        read_place(written, "--health")


def test_a_port_that_is_taken_is_refused_with_the_reason(lite: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = lite("worker", "--app", "shop", "--health", str(taken.getsockname()[1]))
    assert done.code == 2
    assert "--health: cannot listen on 127.0.0.1" in done.err
