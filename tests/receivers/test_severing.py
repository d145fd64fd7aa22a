import pytest

from tests.receivers.hostile import Hostile
from tests.receivers.wire import Wire, ends_with_reset, eventually

SAID = {
    "head": b"",
    "headers": b"HTTP/1.1 200 OK\r\ncontent-length",
    "body": b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nonly this",
}


@pytest.mark.parametrize("when", SAID)
def test_the_path_close_sends_a_fin_at_its_moment(wire: Wire, when: str) -> None:
    assert wire.ask(f"/close?when={when}", bytes(10_000)).hear_all() == SAID[when]


@pytest.mark.parametrize("when", SAID)
def test_the_path_reset_sends_a_rst_at_its_moment(wire: Wire, when: str) -> None:
    wire.ask(f"/reset?when={when}")
    assert wire.hear(len(SAID[when])) == SAID[when]
    assert ends_with_reset(wire)


def test_a_reset_does_not_wait_for_the_body(hostile: Hostile, wire: Wire) -> None:
    wire.socket.sendall(b"POST /reset HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n")
    assert ends_with_reset(wire)
    assert hostile.requests()[0].body is None


def test_a_short_body_ends_before_its_length(wire: Wire) -> None:
    heard = wire.ask("/short-body?status=500").hear_all()
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert heard.endswith(b"content-length: 1000\r\n\r\nonly this")


@pytest.mark.parametrize("how", ["close", "reset"])
def test_the_path_close_after_one_ends_the_connection_when_it_is_used_again(
    hostile: Hostile, wire: Wire, how: str
) -> None:
    head = wire.ask(f"/close-after-one?how={how}").hear_head()
    assert b"connection: keep-alive\r\n" in head
    assert wire.hears_nothing(), "neither data nor its end"
    wire.ask("/ok", b"hello")
    if how == "reset":
        assert ends_with_reset(wire)
    else:
        assert wire.hear_all() == b""
    assert [(request.path, request.nth) for request in hostile.requests()] == [("/close-after-one", 1), ("/ok", 2)]
    wire.socket.close()
    assert eventually(lambda: hostile.connections().open == 0)
