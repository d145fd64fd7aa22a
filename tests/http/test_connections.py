"""How many connections a server keeps, and which of them end: over real sockets."""

import contextlib
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.api.server import http_protocol
from duly.api.server.connections import Connections, default_limit
from tests.cli.conftest import wait_until
from tests.descriptors import limited
from tests.http.serving import Served, served

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def server(sqlite_file: Path, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "duly.db").write_bytes(sqlite_file.read_bytes())
    with served(f"sqlite:///{tmp_path}/duly.db", max_connections=8) as server:
        yield server


def connect(server: Served, of: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 30, source_address=(of, 0))


def is_answered(line: socket.socket) -> bool:
    """Whether a request on it still is."""
    said = b""
    with contextlib.suppress(ConnectionError):
        line.sendall(REQUEST)
        while not said.endswith(b"}") and (part := line.recv(65536)):
            said += part
    return said.startswith(b"HTTP/1.1 200")


def test_the_connection_that_has_been_idle_for_longest_ends_for_a_new_one(server: Served) -> None:
    with contextlib.ExitStack() as opened:
        first, second, third, fourth = [opened.enter_context(connect(server)) for _ in range(4)]
        assert all(is_answered(one) for one in (second, third, fourth, first)), "and are idle from then on"
        fifth = opened.enter_context(connect(server))
        assert is_answered(fifth)
        assert second.recv(1) == b""
        assert all(is_answered(one) for one in (first, third, fourth, fifth))
        wait_until(lambda: len(server.connections) == 4)


def test_one_address_has_half_of_the_connections_and_all_addresses_all(server: Served) -> None:
    with contextlib.ExitStack() as opened:
        of_one = [opened.enter_context(connect(server)) for _ in range(4)]
        others = [opened.enter_context(connect(server, f"127.0.0.{number}")) for number in range(2, 6)]
        assert all(is_answered(one) for one in [*of_one, *others])
        one_more = opened.enter_context(connect(server, "127.0.0.9"))
        assert is_answered(one_more)
        assert of_one[0].recv(1) == b""
        wait_until(lambda: len(server.connections) == 8)


def test_a_trusted_proxy_may_have_all_connections(sqlite_file: Path, tmp_path: Path) -> None:
    (tmp_path / "duly.db").write_bytes(sqlite_file.read_bytes())
    options: dict[str, Any] = {"max_connections": 8, "trusted_proxies": "127.0.0.0/8"}
    with served(f"sqlite:///{tmp_path}/duly.db", **options) as server, contextlib.ExitStack() as opened:
        of_one = [opened.enter_context(connect(server)) for _ in range(8)]
        assert all(is_answered(one) for one in of_one)


class Held:
    """A connection."""

    ended = False

    def end(self) -> None:
        self.ended = True


def at_work(kept: Connections, peer: str) -> Held:
    """One of which a request is under way."""
    one = Held()
    kept.opened(one, peer)
    kept.busy(one)
    return one


def test_of_many_connections_at_once_each_makes_room_for_the_next() -> None:
    """Before any of them has said anything: the last is served, whoever it is."""
    kept, came = Connections(8, []), [Held() for _ in range(20)]
    for one in came:
        assert kept.room_for("192.0.2.1")
        kept.opened(one, "192.0.2.1")
    assert [one.ended for one in came] == [True] * 16 + [False] * 4


def test_a_new_connection_is_refused_where_none_is_idle() -> None:
    kept = Connections(2, [])
    busy = at_work(kept, "192.0.2.1")
    assert not kept.room_for("192.0.2.1")
    assert kept.room_for("192.0.2.2")
    at_work(kept, "192.0.2.2")
    assert not kept.room_for("192.0.2.3")
    kept.idle(busy)
    assert kept.room_for("192.0.2.3")
    assert busy.ended
    assert not kept.room_for("192.0.2.3"), "it is not ended twice"


def test_refused_connections_are_logged_once_in_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    kept = Connections(1, [])
    at_work(kept, "192.0.2.1")
    with caplog.at_level(logging.WARNING, "duly.http"):
        assert not any(kept.room_for("192.0.2.1") for _ in range(100))
        assert len(caplog.records) == 1
        now += 61
        assert not kept.room_for("192.0.2.1")
    assert [record.getMessage() for record in caplog.records][1:] == [
        "connections.full open=1 most=1 ended=0 refused=100"
    ]


def test_addresses_without_connections_are_forgotten() -> None:
    kept = Connections(1000, [])
    for number in range(500):
        one = Held()
        kept.opened(one, f"2001:db8:{number:x}::1")
        kept.idle(one)
        kept.closed(one)
    assert (len(kept), dict(kept._open), kept._idle_of) == (0, {}, {})


@pytest.mark.parametrize("files", [128, 512])
def test_the_limit_of_open_files_bounds_the_connections(files: int) -> None:
    with limited(files):
        assert default_limit() == files // 2


def test_a_client_that_does_not_read_its_answer_is_not_waited_for(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "SLOW_CLIENT_TIMEOUT_S", 0.3)
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        line.connect(("127.0.0.1", server.port))
        line.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            line.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200)
        wait_until(lambda: len(server.connections) == 1)
        wait_until(lambda: len(server.connections) == 0)
