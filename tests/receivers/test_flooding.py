import socket
import struct
import zlib

from tests.receivers.hostile import Hostile
from tests.receivers.wire import Wire, eventually


def test_a_big_answer_has_all_its_bytes(wire: Wire) -> None:
    status, body = wire.ask("/big?bytes=20000001&status=500").hear_answer()
    assert (status, len(body)) == (500, 20_000_001)


def test_a_hundred_megabytes_are_the_default(wire: Wire) -> None:
    assert b"content-length: 100000000\r\n" in wire.ask("/big").hear_head()


def test_a_flood_waits_for_the_client_to_read(hostile: Hostile, wire: Wire) -> None:
    wire.ask("/big").hear_head()
    assert eventually(lambda: hostile.connections().sent > 0)
    sent = hostile.connections().sent
    assert sent < 20_000_000
    wire.hear(30_000_000)
    assert hostile.connections().sent >= 30_000_000


def test_an_endless_body_goes_on(wire: Wire) -> None:
    assert b"transfer-encoding: chunked\r\n" in wire.ask("/endless-body?status=500").hear_head()
    chunk = wire.hear(2**16 + 9)
    assert chunk == b"10000\r\n" + b"z" * 2**16 + b"\r\n"
    assert len(wire.hear(10_000_000)) == 10_000_000


def test_a_header_can_be_a_megabyte_long(wire: Wire) -> None:
    wire.ask("/long-header")
    assert wire.hear(1_000_000).rpartition(b"\r\nx-long: ")[2].count(b"z") > 999_000


def test_headers_can_be_many(wire: Wire) -> None:
    wire.ask("/many-headers?count=100000").socket.shutdown(socket.SHUT_WR)
    assert wire.hear_all().count(b"\r\nx-") == 100_000


def test_a_gzip_bomb_is_a_gigabyte_in_a_megabyte(wire: Wire) -> None:
    head = wire.ask("/gzip-bomb").hear_head()
    assert b"content-encoding: gzip\r\n" in head
    length = int(head.partition(b"content-length: ")[2].split()[0])
    assert length < 1_100_000
    assert struct.unpack("<I", wire.hear(length)[-4:]) == (2**30,)


def test_a_gzip_bomb_is_good_gzip(wire: Wire) -> None:
    _, body = wire.ask("/gzip-bomb?pieces=3").hear_answer()
    assert zlib.decompress(body, wbits=31) == bytes(3 * 2**24)
