import gzip

import pytest

from tests.receivers.hostile import Hostile
from tests.receivers.malformed import CHUNKS
from tests.receivers.wire import Wire


def test_garbage_is_noise_to_the_end(wire: Wire) -> None:
    noise = wire.ask("/garbage?bytes=500").hear_all()
    assert len(noise) == 500
    assert b"HTTP" not in noise


def test_a_version_can_be_anything(wire: Wire, hostile: Hostile) -> None:
    assert wire.ask("/not-http-version").hear_head().startswith(b"HTTP/9.9 200 OK\r\n")
    with Wire(hostile.port()) as other:
        assert other.ask("/not-http-version?version=ICY").hear_head().startswith(b"ICY 200 OK\r\n")


@pytest.mark.parametrize("how", CHUNKS)
def test_chunks_can_be_bad_in_several_ways(wire: Wire, how: str) -> None:
    head = wire.ask(f"/bad-chunks?how={how}&status=500").hear_head()
    assert head.startswith(b"HTTP/1.1 500 ")
    assert b"transfer-encoding: chunked\r\n" in head
    assert wire.hear(len(CHUNKS[how])) == CHUNKS[how]
    assert wire.hears_nothing()


def test_bad_gzip_is_no_gzip(wire: Wire) -> None:
    head = wire.ask("/bad-gzip?status=500").hear_head()
    assert b"content-encoding: gzip\r\n" in head
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(wire.hear(1000))


def test_two_answers_come_for_one_request(hostile: Hostile, wire: Wire) -> None:
    wire.ask("/two-answers?second=503")
    assert [wire.hear_answer()[0] for _ in range(2)] == [200, 503]
    assert len(hostile.requests()) == 1
