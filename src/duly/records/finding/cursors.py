"""Cursors: the position at which a page of a list ended. A cursor is valid only for the list that returned it, with the
same filters."""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping

import msgspec

CURSOR = r"[A-Za-z0-9_-]{1,2000}"
"""The pattern of a cursor. Its longest part is the name of the page's last item, which is far shorter than 2,000
characters."""

_CURSOR = re.compile(CURSOR)


def write_cursor(filters: Mapping[str, str], after: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([_digest(filters), after])).decode().rstrip("=")


def read_cursor(filters: Mapping[str, str], cursor: str) -> str:
    """The position at which the next page begins; raises ValueError with the reason if the cursor is not valid."""
    try:
        if not _CURSOR.fullmatch(cursor):
            raise ValueError
        written = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        of, after = msgspec.json.decode(written, type=tuple[str, str])
    except (ValueError, binascii.Error):
        of = after = "\n"
    if not after.isprintable():
        raise ValueError("is not a cursor of this list: send next_cursor unchanged")
    if of != _digest(filters):
        raise ValueError("belongs to a list with other filters: start the list from the beginning")
    return after


def _digest(filters: Mapping[str, str]) -> str:
    return hashlib.blake2b(repr(sorted(filters.items())).encode(errors="replace"), digest_size=6).hexdigest()
