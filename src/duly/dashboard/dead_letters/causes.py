"""Dead letters in groups: by cause, by destination, by type."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from duly.decide.error_text import first_line
from duly.records.event import HANDLER, Event
from duly.records.results import DeadLetterKind

CAUSE_WORDS = 6
"""Words at the beginning of an error that tell its cause: what follows tells of one event."""

LONGEST_CAUSE = 80
"""Characters of a cause, at most."""


OF_ONE_EVENT = frozenset("0123456789@/'\"<")
"""Characters of words that seldom stand in the errors of several events: numbers, addresses, what is quoted."""


class DeadLetterGroup(NamedTuple):
    """Dead letters that have something in common, and the filter that finds them; None: no filter does."""

    name: str
    events: int
    filter: dict[str, str] | None


def cause_of(error: str | None) -> str:
    """The first words of an error, up to one that tells of a single event: text that stands in the error as it is, so
    that a filter finds it."""
    line = first_line(error or "").lstrip()
    line = line[: next((at for at, sign in enumerate(line) if not sign.isprintable()), len(line))]
    end, words = 0, 0
    for word in line.split(" "):
        if words == CAUSE_WORDS or end + len(word) > LONGEST_CAUSE or (words and not OF_ONE_EVENT.isdisjoint(word)):
            break
        end, words = end + len(word) + 1, words + bool(word)
    return line[: end or LONGEST_CAUSE].rstrip(" :,;(")


def by_cause(events: Iterable[Event]) -> Sequence[DeadLetterGroup]:
    """Groups of dead letters by the first words of their errors, the largest first."""
    found = Counter(cause_of(event.last_error) for event in events)
    return [
        DeadLetterGroup(cause or "without an error", many, {"error": cause} if cause else None)
        for cause, many in found.most_common()
    ]


def kinds_of(events: Iterable[Event]) -> Sequence[DeadLetterKind]:
    """The kinds of these dead letters, as the verb counts them."""
    found = Counter((event.tenant, event.type, event.lane, event.destination) for event in events)
    return [DeadLetterKind(*kind, many) for kind, many in found.most_common()]


def by_destination(kinds: Iterable[DeadLetterKind]) -> Sequence[DeadLetterGroup]:
    """Groups by where they should have gone. A handler is the destination of one type."""
    found, filters = Counter[str](), dict[str, dict[str, str] | None]()
    for kind in kinds:
        if kind.destination is not None:
            name, which = kind.destination, {"destination": kind.destination}
        elif kind.lane.startswith(f"{HANDLER}:"):
            name, which = f"the handler of {kind.type}", {"type": kind.type}
        else:
            name, which = f"{kind.lane}, {kind.type}", {"type": kind.type}
        found[name] += kind.events
        filters[name] = which
    return [DeadLetterGroup(name, many, filters[name]) for name, many in found.most_common()]


def by_type(kinds: Iterable[DeadLetterKind]) -> Sequence[DeadLetterGroup]:
    found = Counter[str]()
    for kind in kinds:
        found[kind.type] += kind.events
    return [DeadLetterGroup(type, many, {"type": type}) for type, many in found.most_common()]
