"""Whatever is changed about a delivery, it is refused; whatever is sent, nothing but a refusal is raised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.inbox import BadSignature, Inbox, Refused
from duly.testing import ManualClock
from tests.inbox.signing import ID, SECRET, make_body, sign
from tests.make import START

INBOX = Inbox(SECRET, clock=ManualClock(START))
BODY = make_body()
HEADERS = {name: value.encode() for name, value in sign(BODY, at=START).items() if name.startswith("webhook-")}
PIECES = {**HEADERS, "body": BODY}

places = st.sampled_from(sorted(PIECES)).flatmap(
    lambda piece: st.tuples(st.just(piece), st.integers(0, len(PIECES[piece]) - 1))
)


@given(place=places, byte=st.integers(0, 255))
def test_a_delivery_with_any_byte_changed_is_refused(place: tuple[str, int], byte: int) -> None:
    piece, at = place
    changed = PIECES[piece][:at] + bytes([byte]) + PIECES[piece][at + 1 :]
    refused_unless(changed == PIECES[piece], PIECES | {piece: changed})


@given(place=places, length=st.integers(1, 20))
def test_a_delivery_with_anything_cut_out_is_refused(place: tuple[str, int], length: int) -> None:
    piece, at = place
    refused_unless(False, PIECES | {piece: PIECES[piece][:at] + PIECES[piece][at + length :]})


@given(place=places, more=st.binary(min_size=1, max_size=20).filter(lambda more: more.split() == [more]))
def test_a_delivery_with_anything_put_in_is_refused(place: tuple[str, int], more: bytes) -> None:
    """But for space, which is no part of a header where it stands around the value."""
    piece, at = place
    refused_unless(False, PIECES | {piece: PIECES[piece][:at] + more + PIECES[piece][at:]})


@given(
    headers=st.dictionaries(st.sampled_from([*HEADERS, "x"]), st.text(max_size=60)),
    body=st.binary(max_size=200),
)
def test_any_bytes_as_a_delivery_raise_nothing_but_a_refusal(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(Refused):
        INBOX.verify(headers, body)


@given(
    body=st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(lambda value: repr(value).encode())
)
def test_any_signed_bytes_raise_nothing_but_a_refusal(body: bytes) -> None:
    with pytest.raises(Refused):
        INBOX.verify(INBOX.sign(ID, body), body)


def refused_unless(same: bool, pieces: dict[str, bytes]) -> None:
    headers = [(name.encode(), value) for name, value in pieces.items() if name != "body"]
    if same:
        INBOX.verify(headers, pieces["body"])
    else:
        with pytest.raises(BadSignature):
            INBOX.verify(headers, pieces["body"])
