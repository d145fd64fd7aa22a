"""Which line of a crontab has which schedule; pure.

A line keeps its schedule by its name, or by what it runs, wherever it stands. A changed line takes over the schedule of
the line that is gone from its place.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from duly.cli.schedules.imports.cron_commands import CronWork


class Line(NamedTuple):
    """A line of the file, or the line that a schedule was imported from, in the order of the file."""

    name: str | None  # of its schedule; of a line of the file only if a comment names it
    work: CronWork | None
    program: str  # with which the work begins
    rule: str  # when it runs, as text
    movable: bool = True  # whether a changed line may take over the schedule: no person has given it its name


Pairs = dict[int, int]
"""The schedules of lines, both by their places in the sequences."""

Key = Callable[[Line], Hashable]
"""What two lines have in common; None: nothing."""


def matched(lines: Sequence[Line], known: Sequence[Line], *, by_place: bool = True) -> Pairs:
    """The known schedules that lines keep or, *by_place*, take over."""
    pairs: Pairs = {}
    now, before = dict(enumerate(lines)), dict(enumerate(known))
    _pair(pairs, now, before, lambda one: one.name)
    _pair(pairs, now, before, lambda one: one.work and (one.work, one.rule))
    _pair(pairs, now, before, lambda one: one.work)
    if not by_place:
        return pairs
    anchors = _in_order(pairs)
    changed = _between([line for line, _ in anchors], {at: one for at, one in now.items() if at not in pairs})
    kept = set(pairs.values())
    gone = _between(
        [old for _, old in anchors], {at: one for at, one in before.items() if at not in kept and one.movable}
    )
    for stretch in changed.keys() & gone.keys():
        for key in (lambda one: one.program, lambda one: one.rule, lambda _: "the same place"):
            _pair(pairs, changed[stretch], gone[stretch], key)
    return pairs


def _pair(pairs: Pairs, lines: Mapping[int, Line], known: Mapping[int, Line], key: Key) -> None:
    """Pairs the lines that have no schedule yet with the first schedules that have the same key."""
    taken, waiting = set(pairs.values()), defaultdict[Hashable, deque[int]](deque)
    for at, one in known.items():
        if at not in taken:
            waiting[key(one)].append(at)
    for at, one in lines.items():
        if at not in pairs and key(one) is not None and (found := waiting.get(key(one))):
            pairs[at] = found.popleft()


def _between(anchors: Sequence[int], lines: Mapping[int, Line]) -> dict[int, dict[int, Line]]:
    """The lines by the stretch of the file in which they stand: after how many anchors."""
    stretches = defaultdict[int, dict[int, Line]](dict)
    for at, one in lines.items():
        stretches[bisect_left(anchors, at)][at] = one
    return stretches


def _in_order(pairs: Pairs) -> list[tuple[int, int]]:
    """The most pairs that have kept their order: between them, places can be compared."""
    ends: list[int] = []  # the lowest place at which a sequence of each length ends
    best: list[list[tuple[int, int]]] = []
    for pair in sorted(pairs.items()):
        length = bisect_left(ends, pair[1])
        ends[length : length + 1] = [pair[1]]
        best[length : length + 1] = [[*(best[length - 1] if length else ()), pair]]
    return best[-1] if best else []
