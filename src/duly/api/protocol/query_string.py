"""Reads the query string of a request; reports every problem at once."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from duly.decide.checks import MOST_LISTED, is_id, name_problems
from duly.errors import Problem
from duly.records.finding.cursors import read_cursor, write_cursor
from duly.records.finding.sorting import read_due_place

USUAL_LIMIT = 100
"""Items of a page, if a request does not say."""

PAGING = ("limit", "cursor", "after", "count")
_WHOLE = re.compile(r"[0-9]{1,9}")


def read_query(items: Iterable[tuple[str, str]], known: Mapping[str, Any]) -> tuple[dict[str, str], list[Problem]]:
    """The parameters, each at most once. A repeated or unknown parameter is a problem, because it would be
    misunderstood. A known name with a dot stands for all with the same beginning, such as ``attributes.plan``."""
    beginnings = tuple(f"{name.partition('.')[0]}." for name in known if "." in name)
    query: dict[str, str] = {}
    problems = []
    for name, value in items:
        if name not in known and not (beginnings and name.startswith(beginnings)):
            allowed = ", ".join(known) or "none here"
            problems.append(Problem(f"query.{name}"[:60], f"is unknown; known: {allowed}"))
        elif name in query:
            problems.append(Problem(f"query.{name}", "is given twice"))
        else:
            query[name] = value
    return query, problems


def read_whole(path: str, written: str, least: int, most: int) -> int | Problem:
    if _WHOLE.fullmatch(written) and least <= int(written) <= most:
        return int(written)
    return Problem(path, f"must be a whole number from {least} to {most:,}, not {written!r:.50}")


BOOLEANS = ("true", "false")


def read_boolean(path: str, written: str) -> bool | Problem:
    return written == "true" if written in BOOLEANS else Problem(path, f"must be true or false, not {written!r:.50}")


Place = Callable[[str, str], str | Problem]
"""Checks the value of the named parameter that says where a page begins."""


def any_place(path: str, written: str) -> str | Problem:
    return written


def id_place(path: str, written: str) -> str | Problem:
    if is_id(written.lower()):
        return written.lower()
    return Problem(path, f"{written!r:.60} is not an id: expected a UUID")


def due_place(path: str, written: str) -> str | Problem:
    """That of a list in the order of due times."""
    place = read_due_place(path, written)
    return place if isinstance(place, Problem) else str(place)


def name_place(path: str, written: str) -> str | Problem:
    return next((problem._replace(path=path) for problem in name_problems("name", written)), written)


class RequestedPage:
    """The page of a list that a request asks for: its limit, and the place after which it begins. A cursor is valid
    only for the list that returned it; `after`, in lists that accept it instead, is the id or name of the last item, as
    *place* checks it. `count` asks how many match in all."""

    def __init__(self, query: Mapping[str, str], place: Place = any_place) -> None:
        problems = list[Problem]()
        self._filters = {name: value for name, value in query.items() if name not in PAGING}
        self.limit = USUAL_LIMIT
        self.after: str | None = None
        if "limit" in query:
            limit = read_whole("limit", query["limit"], 1, MOST_LISTED)
            if isinstance(limit, Problem):
                problems.append(limit)
            else:
                self.limit = limit
        if "cursor" in query and "after" in query:
            problems.append(Problem("after", "cannot be used together with a cursor: give one of them"))
        for path, read in (("cursor", self._read), ("after", str)):
            if path in query:
                after = read(query[path])
                after = after if isinstance(after, Problem) else place(path, after)
                if isinstance(after, Problem):
                    problems.append(after)
                else:
                    self.after = after
        self.counts = query.get("count") == "true"
        if query.get("count", "true") not in ("true", "false"):
            problems.append(Problem("count", f"must be true or false, not {query['count']!r:.50}"))
        self.problems: Sequence[Problem] = problems

    def cursor(self, after: str) -> str:
        return write_cursor(self._filters, after)

    def _read(self, cursor: str) -> str | Problem:
        try:
            return read_cursor(self._filters, cursor)
        except ValueError as error:
            return Problem("cursor", str(error))


def link_to_next(path: str, query: Mapping[str, str], cursor: str) -> str:
    same = {name: value for name, value in query.items() if name not in ("after", "count")}
    return f'<{path}?{urlencode({**same, "cursor": cursor})}>; rel="next"'
