"""Reads what an address asks for after its question mark; all that is wrong with it at once."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from duly.core.checks import MOST_LISTED
from duly.errors import Invalid, Problem

USUAL_LIMIT = 100
PAGING = ("limit", "cursor")
_WHOLE = re.compile(r"[0-9]{1,9}")


def read_query(items: Iterable[tuple[str, str]], known: Mapping[str, Any]) -> dict[str, str]:
    """Each parameter once; what is repeated or unknown is a problem, for it would be misunderstood."""
    query: dict[str, str] = {}
    problems = []
    for name, value in items:
        if name not in known:
            allowed = ", ".join(known) or "none here"
            problems.append(Problem(f"query.{name}"[:60], f"is unknown; known: {allowed}"))
        elif name in query:
            problems.append(Problem(f"query.{name}", "is given twice"))
        query[name] = value
    if problems:
        raise Invalid(problems)
    return query


def read_whole(path: str, written: str, least: int, most: int) -> int | Problem:
    if _WHOLE.fullmatch(written) and least <= int(written) <= most:
        return int(written)
    return Problem(path, f"must be a whole number from {least} to {most:,}, not {written!r:.50}")


class Page:
    """Which page of a list: so many, after where the one before it ended. A cursor fits only the list that gave it."""

    def __init__(self, query: Mapping[str, str]) -> None:
        problems = []
        self._of = _digest({name: value for name, value in query.items() if name not in PAGING})
        self.limit, self.after = USUAL_LIMIT, None
        if "limit" in query:
            limit = read_whole("limit", query["limit"], 1, MOST_LISTED)
            if isinstance(limit, Problem):
                problems.append(limit)
            else:
                self.limit = limit
        if "cursor" in query:
            after = self._read(query["cursor"])
            if isinstance(after, Problem):
                problems.append(after)
            else:
                self.after = after
        self.problems: Sequence[Problem] = problems

    def cursor(self, after: str) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode([self._of, after])).decode().rstrip("=")

    def _read(self, cursor: str) -> str | Problem:
        try:
            written = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            of, after = msgspec.json.decode(written, type=tuple[str, str])
        except (ValueError, binascii.Error):
            of = after = "\n"
        if not after.isprintable():
            return Problem("cursor", "is none that a list has given: take next_cursor as it is")
        if of != self._of:
            return Problem("cursor", "belongs to a list with other filters: begin that list anew")
        return after


def link_to_next(path: str, query: Mapping[str, str], cursor: str) -> str:
    return f'<{path}?{urlencode({**query, "cursor": cursor})}>; rel="next"'


def _digest(filters: Mapping[str, str]) -> str:
    return hashlib.blake2b(repr(sorted(filters.items())).encode(errors="replace"), digest_size=6).hexdigest()
