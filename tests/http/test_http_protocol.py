"""What comes over a real socket and is hardly a request: too large, too slow, half, or none at all."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.api.protocol import bodies
from duly.api.server import http_protocol
from duly.api.server.server import listen
from tests.http.serving import Served, served

PATIENCE = 0.3


@pytest.fixture
def server(sqlite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(bodies, "BODY_TIMEOUT_S", PATIENCE)
    monkeypatch.setattr(http_protocol, "SLOW_CLIENT_TIMEOUT_S", PATIENCE)
    (tmp_path / "duly.db").write_bytes(sqlite_file.read_bytes())
    with served(f"sqlite:///{tmp_path}/duly.db") as server:
        yield server


class Line:
    """A connection, used as no library would."""

    def __init__(self, server: Served) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, *parts: bytes) -> None:
        for part in parts:
            try:
                self._socket.sendall(part)
            except ConnectionError:  # it does not want to hear more
                return

    def answer(self) -> bytes:
        """One, after which the connection stays."""
        said = b""
        while b"\r\n\r\n" not in said or not said.endswith(b"}"):
            said += self._socket.recv(65536)
        return said

    def rests(self, seconds: float) -> bool:
        """Whether nothing is said for so long, not even a good-bye."""
        self._socket.settimeout(seconds)
        try:
            self._socket.recv(1)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(10)
        return False

    def heard(self) -> bytes:
        """All until the server ends the connection."""
        said = b""
        while True:
            try:
                part = self._socket.recv(65536)
            except ConnectionError:
                return said
            if not part:
                return said
            said += part


def read(said: bytes) -> tuple[int, dict[str, str], Any]:
    """The first answer of all that was heard."""
    head, _, rest = said.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(first.split()[1]), headers, json.loads(rest[: int(headers["content-length"])])


HEAD = b"PUT /v1/timers/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def check(said: bytes, status: int) -> None:
    """It is a problem, and the connection has ended."""
    answered, headers, problem = read(said)
    assert (answered, problem["status"]) == (status, status)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert headers["x-request-id"] == problem["request_id"]
    assert headers["x-content-type-options"] == "nosniff"


def test_a_body_that_says_it_is_too_large_is_not_read(server: Served) -> None:
    with Line(server) as line:
        line.send(HEAD + b"Content-Length: 3000000\r\n\r\n")
        check(line.heard(), 413)


def test_a_body_that_turns_out_too_large_is_not_read_to_its_end(server: Served) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with Line(server) as line:
        line.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 40)
        check(line.heard(), 413)


def test_a_body_that_never_comes_is_not_waited_for(server: Served) -> None:
    with Line(server) as line:
        line.send(HEAD + b"Content-Length: 10\r\n\r\n{")
        check(line.heard(), 408)


@pytest.mark.parametrize("begun", [b"", b"GET", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_a_head_that_never_comes_is_not_waited_for(server: Served, begun: bytes) -> None:
    with Line(server) as line:
        line.send(begun)
        check(line.heard(), 408)


def test_a_connection_may_be_idle_longer_than_a_head_may_take(server: Served) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with Line(server) as line:
        line.send(ask)
        assert read(line.answer())[0] == 200
        assert line.rests(3 * PATIENCE)
        line.send(ask)
        assert read(line.answer())[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * 200_000,
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-Many: x\r\n" * 20_000,
        b"GET /healthz?" + b"x" * 200_000,
    ],
)
def test_a_head_that_does_not_end_is_too_large(server: Served, head: bytes) -> None:
    with Line(server) as line:
        line.send(*(head[at : at + 10_000] for at in range(0, len(head), 10_000)))
        said = line.heard()
    assert not said or read(said)[0] in (400, 431)  # what was sent after the answer may have torn it up


@pytest.mark.parametrize("size", [66_000, 70_000, 100_000])
@pytest.mark.parametrize("where", ["address", "one header", "many headers"])
def test_a_whole_head_that_is_too_large_is_told_so(server: Served, where: str, size: int) -> None:
    address, header, many = {
        "address": (size, 0, 0),
        "one header": (0, size, 0),
        "many headers": (0, 0, size // len("X-Some: much\r\n")),
    }[where]
    head = b"GET /v1/events?type=" + b"x" * address + b" HTTP/1.1\r\nHost: localhost\r\n"
    head += b"X-Much: " + b"x" * header + b"\r\n" + b"X-Some: much\r\n" * many + b"\r\n"
    with Line(server) as line:
        line.send(head)
        said = line.heard()
    if said:  # what was sent after the answer may have torn it up
        check(said, 431)
        assert "larger than 64 KB" in read(said)[2]["detail"]


def test_a_head_of_nearly_the_largest_size_is_read(server: Served) -> None:
    with Line(server) as line:
        line.send(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nX-Much: " + b"x" * 60_000 + b"\r\n\r\n")
        assert line.answer().startswith(b"HTTP/1.1 200")
        line.send(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nX-Much: " + b"x" * 60_000 + b"\r\n\r\n")
        assert line.answer().startswith(b"HTTP/1.1 200"), "each is counted by itself"


def test_a_head_that_just_exceeds_the_limit_is_told_so(server: Served) -> None:
    with Line(server) as line:
        line.send(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * (http_protocol.LARGEST_HEAD_BYTES - 20))
        check(line.heard(), 431)


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
        b"hello\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX-Nul: a\x00b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"PUT /v1/timers/a HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PUT /v1/timers/a HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_are_told_so(server: Served, said: bytes) -> None:
    with Line(server) as line:
        line.send(said)
        check(line.heard(), 400)


def test_a_body_that_came_with_its_head_does_not_count_as_head(server: Served) -> None:
    body = json.dumps({"after": "1h", "type": "x", "payload": "x" * 200_000}).encode()
    with Line(server) as line:
        line.send(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert read(line.heard())[0] == 201


def test_requests_may_be_pipelined(server: Served) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with Line(server) as line:
        line.send((ask + b"\r\n") * 20 + ask + b"Connection: close\r\n\r\n")
        assert line.heard().count(b"HTTP/1.1 200") == 21


def test_small_answers_do_not_wait_for_what_was_sent_before_to_be_acknowledged() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("hosts", "status", "detail"),
    [
        (b"", 400, "has no Host header"),
        (b"Host: a.example\r\nhost: b.example\r\n", 400, "more than one Host header"),
        (b"Host: a.example\r\nHost: a.example\r\n", 400, "more than one Host header"),
        (b"Host: a.example\r\n", 200, None),
        (b"Host: \r\n", 200, None),
    ],
)
def test_a_request_has_one_host(server: Served, hosts: bytes, status: int, detail: str | None) -> None:
    with Line(server) as line:
        line.send(b"GET /healthz HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")
        answered, _, body = read(line.heard())
    assert answered == status
    assert detail is None or detail in body["detail"]


def test_http_1_0_needs_no_host_but_may_not_have_two(server: Served) -> None:
    for hosts, status in ((b"", 200), (b"Host: a\r\nHost: b\r\n", 400)):
        with Line(server) as line:
            line.send(b"GET /healthz HTTP/1.0\r\n" + hosts + b"\r\n")
            assert read(line.heard())[0] == status
