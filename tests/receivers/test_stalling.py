import socket
import time

import pytest

from tests.receivers.hostile import Hostile
from tests.receivers.wire import Wire, eventually


def test_the_path_no_answer_reads_the_request_and_is_silent(hostile: Hostile, wire: Wire) -> None:
    wire.ask("/no-answer", b"hello")
    assert eventually(lambda: [request.body for request in hostile.requests()] == [b"hello"])
    assert wire.hears_nothing()


def test_the_path_never_reads_fills_the_buffers_of_the_client(hostile: Hostile, wire: Wire) -> None:
    wire.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        wire.ask("/never-reads", bytes(50_000_000))
    assert hostile.requests()[0].body is None


def test_slow_headers_come_byte_by_byte(wire: Wire) -> None:
    began = time.monotonic()
    assert wire.ask("/slow-headers?drip=0.01").hear(25).startswith(b"HTTP/1.1 200 Slow\r\n")
    assert time.monotonic() - began >= 0.24


def test_a_slow_body_comes_byte_by_byte_after_a_whole_head(wire: Wire) -> None:
    began = time.monotonic()
    assert wire.ask("/slow-body?status=500&drip=0.01").hear_head().startswith(b"HTTP/1.1 500 ")
    assert wire.hear(15) == b"z" * 15
    assert time.monotonic() - began >= 0.14


def test_slow_headers_never_end(wire: Wire) -> None:
    assert b"\r\n\r\n" not in wire.ask("/slow-headers?drip=0").hear(10_000)


def test_the_path_half_open_answers_once_and_ignores_the_clients_end(hostile: Hostile, wire: Wire) -> None:
    assert wire.ask("/half-open").hear_answer()[0] == 200
    wire.ask("/ok")
    assert wire.hears_nothing()
    assert eventually(lambda: [request.path for request in hostile.requests()] == ["/half-open", "/ok"])
    wire.socket.shutdown(socket.SHUT_WR)
    assert wire.hears_nothing()
    assert hostile.connections().open == 1
    with Wire(hostile.port()) as other:
        assert other.ask("/half-open").hear_answer()[0] == 200, "each connection is answered once"


def test_a_client_that_hangs_up_is_no_longer_counted(hostile: Hostile) -> None:
    for path in ("/no-answer", "/slow-headers?drip=0.01", "/slow-body?drip=0.01", "/endless-body"):
        with Wire(hostile.port()) as wire:
            wire.ask(path)
            assert eventually(lambda: hostile.connections().open == 1)
        assert eventually(lambda: hostile.connections().open == 0), path
