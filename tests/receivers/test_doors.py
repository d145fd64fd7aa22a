import socket
import ssl

import pytest

from tests.receivers.hostile import Hostile
from tests.receivers.own_process import HERE
from tests.receivers.wire import Wire, ends_with_reset, eventually


def shake_hands(hostile: Hostile, door: str, *, name: str = "localhost", trusting: bool = True) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=hostile.authority if trusting else None)
    plain = socket.create_connection((HERE, hostile.port(door)), timeout=5)
    try:
        return context.wrap_socket(plain, server_hostname=name)
    except BaseException:
        plain.close()
        raise


def test_the_port_resets_resets_a_connection_at_once(hostile: Hostile) -> None:
    with pytest.raises(ConnectionResetError), Wire(hostile.port("resets")) as wire:
        wire.hear_all()


def test_the_port_closes_closes_a_connection_at_once(hostile: Hostile) -> None:
    with Wire(hostile.port("closes")) as wire:
        assert wire.hear_all() == b""


def test_the_port_silent_neither_reads_nor_writes(hostile: Hostile) -> None:
    with Wire(hostile.port("silent")) as wire:
        wire.ask("/ok")
        assert wire.hears_nothing()
        wire.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            wire.socket.sendall(bytes(50_000_000))
    assert hostile.requests() == []


def test_nobody_listens_at_the_port_refused(hostile: Hostile) -> None:
    with pytest.raises(ConnectionRefusedError):
        Wire(hostile.port("refused"))


def test_nobody_accepts_at_the_port_unanswered(hostile: Hostile) -> None:
    with socket.socket() as client:
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.connect((HERE, hostile.port("unanswered")))


@pytest.mark.parametrize("name", ["localhost", "hooks.example", HERE])
def test_the_port_trusted_is_good_for_clients_that_trust_the_authority(hostile: Hostile, name: str) -> None:
    with shake_hands(hostile, "trusted", name=name) as client:
        client.sendall(b"POST /ok HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
    [request] = hostile.requests()
    assert request.door == "trusted"
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(hostile, "trusted", name=name, trusting=False)


@pytest.mark.parametrize(
    ("door", "reason"),
    [
        ("self-signed", "self-signed certificate"),
        ("expired", "certificate has expired"),
        ("wrong-host", "Hostname mismatch"),
    ],
)
def test_a_bad_certificate_is_bad_for_its_own_reason(hostile: Hostile, door: str, reason: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        shake_hands(hostile, door)


def test_only_the_name_in_the_certificate_of_wrong_host_is_wrong(hostile: Hostile) -> None:
    shake_hands(hostile, "wrong-host", name="elsewhere.example").close()


def test_the_port_plain_text_answers_tls_in_http(hostile: Hostile) -> None:
    with pytest.raises(ssl.SSLError) as raised:
        shake_hands(hostile, "plain-text")
    assert raised.value.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
    with Wire(hostile.port("plain-text")) as wire:
        wire.socket.sendall(b"\x16\x03\x01")
        assert wire.hear_answer() == (400, b"plain text only")


def test_the_port_stalled_says_nothing_in_the_handshake(hostile: Hostile) -> None:
    with Wire(hostile.port("stalled")) as wire:
        wire.socket.sendall(b"\x16\x03\x01")
        assert wire.hears_nothing()
    assert eventually(lambda: hostile.connections().open == 0)


def test_the_port_broken_off_resets_in_the_handshake(hostile: Hostile) -> None:
    with Wire(hostile.port("broken-off")) as wire:
        assert wire.hears_nothing()
        wire.socket.sendall(b"\x16\x03\x01")
        assert ends_with_reset(wire)


def test_urls_have_the_scheme_of_their_port(hostile: Hostile) -> None:
    assert hostile.url("/ok") == f"http://127.0.0.1:{hostile.port()}/ok"
    assert hostile.url("/ok", "expired", host="localhost") == f"https://localhost:{hostile.port('expired')}/ok"
