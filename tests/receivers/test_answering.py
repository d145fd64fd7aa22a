import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from tests.receivers.hostile import Hostile
from tests.receivers.wire import Wire, eventually


def test_requests_to_the_hostile_receiver_are_recorded(hostile: Hostile, wire: Wire) -> None:
    began = time.time()
    assert wire.ask("/ok?a=1", b"hello", webhook_id="e1").hear_answer() == (200, b"ok")
    assert wire.ask("/ok", b"again").hear_answer() == (200, b"ok")
    first, second = hostile.requests()
    assert (first.method, first.path, first.body, first.header("Webhook-Id")) == ("POST", "/ok", b"hello", "e1")
    assert began <= first.at <= second.at <= time.time()
    assert [(request.connection, request.reused) for request in (first, second)] == [(1, False), (1, True)]


def test_connections_are_counted_and_forgotten(hostile: Hostile, wire: Wire) -> None:
    with Wire(hostile.port()) as other:
        wire.ask("/ok").hear_answer()
        other.ask("/ok").hear_answer()
        assert hostile.connections().open == 2
    assert eventually(lambda: hostile.connections().open == 1)
    assert hostile.connections().accepted == 2
    hostile.forget()
    assert hostile.connections().accepted == hostile.connections().open == len(hostile.requests()) == 0
    assert wire.hear_all() == b"", "cut off"


def test_bodies_in_chunks_are_read(hostile: Hostile, wire: Wire) -> None:
    wire.socket.sendall(b"PUT /ok HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    wire.socket.sendall(b"5\r\nhello\r\n7;x=1\r\n, world\r\n0\r\n\r\n")
    assert wire.hear_answer() == (200, b"ok")
    assert hostile.requests()[0].body == b"hello, world"


def test_a_status_and_its_retry_after_are_what_the_path_says(wire: Wire) -> None:
    head = wire.ask("/status/503?retry-after=7&body=no").hear_head()
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nretry-after: 7\r\n" in head
    assert wire.hear(2) == b"no"


def test_retry_after_can_be_a_date(wire: Wire) -> None:
    head = wire.ask("/status/429?retry-date=60&body=").hear_head().decode()
    date = parsedate_to_datetime(head.partition("retry-after: ")[2].partition("\r\n")[0])
    assert timedelta(seconds=55) < date - datetime.now(UTC) <= timedelta(seconds=60)


def test_a_redirect_says_where_to(wire: Wire) -> None:
    head = wire.ask("/redirect/302?to=http://127.0.0.1:1/x").hear_head()
    assert head.startswith(b"HTTP/1.1 302 Found\r\n")
    assert b"\r\nlocation: http://127.0.0.1:1/x\r\n" in head


def test_a_delayed_answer_comes_after_its_delay(wire: Wire) -> None:
    began = time.monotonic()
    assert wire.ask("/delay?seconds=0.1&status=202").hear_answer()[0] == 202
    assert time.monotonic() - began >= 0.1


def test_the_path_flaky_fails_so_often_for_each_id(wire: Wire) -> None:
    ids = ["e1", "e1", "e2", "e1", "e2", "e2"]
    statuses = [wire.ask("/flaky?fail=2", webhook_id=id).hear_answer()[0] for id in ids]
    assert statuses == [503, 503, 503, 200, 503, 200]


def test_a_cookie_is_set(wire: Wire) -> None:
    assert b"\r\nset-cookie: session=stolen; Path=/\r\n" in wire.ask("/set-cookie").hear_head()


def test_the_path_echo_answers_what_was_sent(wire: Wire) -> None:
    _, body = wire.ask("/echo?x=1", "grüß".encode(), x_own="mine").hear_answer()
    told = json.loads(body)
    assert (told["method"], told["path"], told["body"]) == ("POST", "/echo?x=1", "grüß")
    assert ["x-own", "mine"] in told["headers"]


def test_interim_answers_come_as_often_as_asked_for(wire: Wire) -> None:
    wire.ask("/100-continue?times=3&every=0.01")
    assert [wire.hear_head() for _ in range(3)] == [b"HTTP/1.1 100 Continue\r\n\r\n"] * 3
    assert wire.hear_answer()[0] == 200
    wire.ask("/100-continue?every=0")
    assert {wire.hear_head() for _ in range(100)} == {b"HTTP/1.1 100 Continue\r\n\r\n"}


def test_an_early_answer_does_not_wait_for_the_body(hostile: Hostile, wire: Wire) -> None:
    wire.socket.sendall(b"POST /early/413 HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n")
    assert wire.hear_answer() == (413, b"too early")
    assert hostile.requests()[0].body is None


def test_an_unknown_path_lists_those_that_are_known(wire: Wire) -> None:
    status, body = wire.ask("/nonsense").hear_answer()
    assert status == 404
    assert b"slow-headers" in body
