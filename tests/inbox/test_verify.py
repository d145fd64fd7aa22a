"""An inbox believes what Duly signed, just now, and nothing else."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cloudevents.core.bindings.http import to_structured_event
from cloudevents.core.v1.event import CloudEvent
from standardwebhooks import Webhook

from duly import DulyError, Misuse
from duly.inbox import BadSignature, Inbox, Malformed, Refused, Stale, TooLarge
from duly.testing import ManualClock
from tests.inbox.signing import ID, OTHER, SECRET, make_body, sign
from tests.make import SECOND, START

MINUTE = timedelta(minutes=1)


@pytest.fixture
def inbox(clock: ManualClock) -> Inbox:
    return Inbox(SECRET, clock=clock)


# -- what is believed


def test_an_inbox_verifies_what_the_reference_library_signs(inbox: Inbox) -> None:
    message = inbox.verify(sign(make_body(), at=START), make_body())
    assert (message.id, message.type) == (ID, "birthday")
    assert message.data == {"message": "Hey, Ada Lovelace it's your birthday"}
    assert message.timestamp == datetime(2026, 12, 1, 9, 0, 0, 20_000, UTC)
    assert message.event["attempt"] == 1


def test_the_reference_library_verifies_what_an_inbox_signs() -> None:
    body = make_body("Grüße, Ђорђе")
    assert Webhook(SECRET).verify(body, Inbox(SECRET).sign(ID, body))["type"] == "birthday"


@pytest.mark.parametrize(
    "shape",
    [
        dict,
        lambda headers: {name.title(): value for name, value in headers.items()},
        lambda headers: {name.upper(): value for name, value in headers.items()},
        lambda headers: list(headers.items()),
        lambda headers: [(name.encode(), value.encode()) for name, value in headers.items()],
        lambda headers: iter([(name.title().encode(), value.encode()) for name, value in headers.items()]),
        lambda headers: {name: f" {value}\t" for name, value in headers.items()},
    ],
    ids=["dict", "titles", "capitals", "pairs", "bytes", "an iterator", "spaces around"],
)
def test_headers_may_come_in_any_form(inbox: Inbox, shape: Any) -> None:
    assert inbox.verify(shape(sign(make_body(), at=START)), make_body()).id == ID


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_a_body_may_be_any_bytes(inbox: Inbox, form: Any) -> None:
    assert inbox.verify(sign(make_body(), at=START), form(make_body())).id == ID


def test_a_signed_cloud_event_is_read(inbox: Inbox) -> None:
    sent = CloudEvent(
        attributes={
            "id": ID,
            "source": "/duly/default",
            "type": "birthday",
            "specversion": "1.0",
            "datacontenttype": "application/json",
            "time": START,
            "attempt": 2,
        },
        data={"message": "Hey"},
    )
    http = to_structured_event(sent)
    message = inbox.verify(sign(http.body, at=START) | dict(http.headers), http.body)
    assert (message.id, message.type, message.timestamp, message.data) == (ID, "birthday", START, {"message": "Hey"})
    assert message.event == {"id": ID, "source": "/duly/default", "attempt": 2}


@pytest.mark.parametrize("apart", [-300, -1, 0, 1, 300])
def test_the_clocks_of_sender_and_receiver_may_differ_by_five_minutes(inbox: Inbox, apart: int) -> None:
    assert inbox.verify(sign(make_body(), at=START + apart * SECOND), make_body()).id == ID


def test_a_wider_tolerance_can_be_set(clock: ManualClock) -> None:
    inbox = Inbox(SECRET, tolerance=timedelta(hours=1), clock=clock)
    assert inbox.verify(sign(make_body(), at=START - 59 * MINUTE), make_body()).id == ID


def test_an_inbox_without_a_clock_uses_the_clock_of_the_system() -> None:
    assert Inbox(SECRET).verify(sign(make_body()), make_body()).id == ID
    with pytest.raises(Stale):
        Inbox(SECRET).verify(sign(make_body(), at=START), make_body())


@pytest.mark.parametrize("secret", [SECRET, SECRET.removeprefix("whsec_"), SECRET.rstrip("="), f" {SECRET}\n"])
def test_a_secret_may_be_written_in_several_ways(clock: ManualClock, secret: str) -> None:
    assert Inbox(secret, clock=clock).verify(sign(make_body(), at=START), make_body()).id == ID


# -- a change of secrets


def test_while_duly_signs_with_two_secrets_either_one_is_enough(clock: ManualClock) -> None:
    headers = sign(make_body(), SECRET, OTHER, at=START)
    for secret in (SECRET, OTHER):
        assert Inbox(secret, clock=clock).verify(headers, make_body()).id == ID


def test_a_receiver_that_knows_both_secrets_goes_through_the_change_without_a_gap(clock: ManualClock) -> None:
    old, new, both = [Inbox(SECRET, clock=clock), Inbox(OTHER, clock=clock), Inbox(OTHER, SECRET, clock=clock)]
    for signed_with, inboxes in (
        ((SECRET,), (old, both)),
        ((SECRET, OTHER), (old, both, new)),
        ((OTHER,), (both, new)),
    ):
        for inbox in inboxes:
            assert inbox.verify(sign(make_body(), *signed_with, at=START), make_body()).id == ID
    with pytest.raises(BadSignature):
        new.verify(sign(make_body(), SECRET, at=START), make_body())


def test_signatures_of_other_versions_are_ignored(inbox: Inbox) -> None:
    headers = sign(make_body(), at=START)
    headers["webhook-signature"] = f"v1a,AAAA v2 , {headers['webhook-signature']} v0,"
    assert inbox.verify(headers, make_body()).id == ID


# -- what is refused


def test_another_secret_is_refused(inbox: Inbox) -> None:
    with pytest.raises(BadSignature, match=r"no signature matches: .*replay"):
        inbox.verify(sign(make_body(), OTHER, at=START), make_body())


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("webhook-id", f"{ID}0"),
        ("webhook-id", ID.upper()),
        ("webhook-timestamp", str(int(START.timestamp()) + 1)),
        ("webhook-timestamp", f"0{int(START.timestamp())}"),
        ("webhook-timestamp", f"{int(START.timestamp())}.0"),
        ("webhook-timestamp", "-1"),
        ("webhook-timestamp", "soon"),
        ("webhook-timestamp", "9" * 400),
        ("webhook-timestamp", "١٧٦٧"),
        ("webhook-signature", "v1"),
        ("webhook-signature", "v1,"),
        ("webhook-signature", ",,, ,"),
        ("webhook-signature", "v1,%%%not base64%%%"),
        ("webhook-signature", "v1,é"),
        ("webhook-signature", "v1," + "A" * 43 + "="),
        ("webhook-signature", "\ud800"),
        ("webhook-id", "a\0b"),
    ],
)
def test_a_changed_header_is_refused(inbox: Inbox, header: str, value: str) -> None:
    with pytest.raises(BadSignature):
        inbox.verify(sign(make_body(), at=START) | {header: value}, make_body())


@pytest.mark.parametrize("header", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_header_that_is_missing_empty_or_there_twice_is_named(inbox: Inbox, header: str) -> None:
    headers = sign(make_body(), at=START)
    without = {name: value for name, value in headers.items() if name != header}
    for broken in (without, headers | {header: ""}, [*headers.items(), (header.title(), headers[header])], {}):
        named = header if broken else "webhook-id"
        with pytest.raises(BadSignature, match=named):
            inbox.verify(broken, make_body())


@pytest.mark.parametrize("change", [lambda body: body + b" ", lambda body: body[:-1], lambda body: b""])
def test_a_changed_body_is_refused(inbox: Inbox, change: Any) -> None:
    with pytest.raises(BadSignature):
        inbox.verify(sign(make_body(), at=START), change(make_body()))


@pytest.mark.parametrize(("apart", "words"), [(-301, "301 seconds ago"), (301, "301 seconds from now")])
def test_a_signature_from_another_time_is_stale_and_may_be_tried_again(inbox: Inbox, apart: int, words: str) -> None:
    with pytest.raises(Stale, match=words) as refused:
        inbox.verify(sign(make_body(), at=START + apart * SECOND), make_body())
    assert refused.value.status == 425


def test_a_badly_signed_delivery_is_never_called_stale(inbox: Inbox) -> None:
    with pytest.raises(BadSignature):
        inbox.verify(sign(make_body(), OTHER, at=START - 60 * MINUTE), make_body())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"9" * 10_000,
        b"{}",
        make_body(type=None),
        make_body(event="none"),
        make_body(timestamp="yesterday"),
        make_body(timestamp="2026-12-01T09:00:00"),
        make_body(timestamp="0001-01-01T00:00:00+23:00"),
        make_body(timestamp=7),
    ],
)
def test_a_rightly_signed_body_that_is_no_event_is_malformed(inbox: Inbox, body: bytes) -> None:
    headers = inbox.sign(ID, body)
    with pytest.raises(Malformed, match="the signature is correct, but"):
        inbox.verify(headers, body)


def test_a_body_past_the_limit_is_refused_before_anything_is_computed(clock: ManualClock) -> None:
    inbox = Inbox(SECRET, max_body=len(make_body()), clock=clock)
    assert inbox.verify(sign(make_body(), at=START), make_body()).id == ID
    with pytest.raises(TooLarge, match=str(len(make_body()))):
        inbox.verify({}, make_body() + b" ")


def test_each_refusal_has_the_status_to_answer() -> None:
    statuses = {kind.__name__: kind.status for kind in Refused.__subclasses__()}
    assert statuses == {"BadSignature": 401, "Stale": 425, "TooLarge": 413, "Malformed": 400}
    assert issubclass(Refused, DulyError)


# -- misuse


@pytest.mark.parametrize("body", [make_body().decode(), json.loads(make_body()), None])
def test_a_body_that_was_read_already_is_misuse(inbox: Inbox, body: Any) -> None:
    with pytest.raises(Misuse, match="pass the bytes of the body unchanged"):
        inbox.verify(sign(make_body(), at=START), body)


@pytest.mark.parametrize(
    "secrets",
    [[], [""], [" "], ["whsec_"], [None], [b"x"], ["whsec_Zm9v"], ["whsec_käse"], ["whsec_A"], [SECRET, "!"]],
)
def test_an_inbox_without_a_usable_secret_is_misuse_and_the_message_does_not_show_it(secrets: list[Any]) -> None:
    with pytest.raises(Misuse) as refused:
        Inbox(*secrets)
    assert not any(
        isinstance(secret, str) and secret.strip() and secret in str(refused.value)
        for secret in secrets
        if secret != "whsec_"
    )


def test_an_inbox_does_not_show_its_secrets(inbox: Inbox) -> None:
    assert SECRET not in repr(inbox)
    assert "known to Duly" not in repr(inbox)
