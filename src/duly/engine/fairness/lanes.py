"""The lanes that a worker claims from, and how it splits its free places among them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from duly.records.event import Event


class Lanes:
    def __init__(self, names: Iterable[str]) -> None:
        self._all = list(names)
        self.open = list(self._all)  # lanes that can be served now
        self.on_trial: frozenset[str] = frozenset()  # open lanes that get one event at a time
        self.returning: frozenset[str] = frozenset()  # open lanes that could not be served until now
        self.busy: frozenset[str] = frozenset()  # open lanes with a backlog
        self._backlog_next = False
        self._empty_in_a_row = 0  # lanes of the claims since the last one that found events

    @property
    def trusted(self) -> list[str]:
        return [lane for lane in self.open if lane not in self.on_trial | self.returning]

    def open_only(self, names: Collection[str], on_trial: frozenset[str]) -> None:
        """Serves only these lanes until the next call."""
        self.returning = self.returning.union(set(names).difference(self.open)).intersection(names)
        self.open, self.on_trial = [lane for lane in self._all if lane in names], on_trial
        self.busy = self.busy.intersection(self.open) - on_trial

    def budget(self, free: int, limited: Collection[str], claimed: Callable[[], Iterable[Event]]) -> dict[str, int]:
        """How many events to claim of each lane; 0 for a lane that has to wait. A lane on trial gets its next event
        after the last one has ended. A returning lane gets none until all its given-back events are settled, or newer
        events would overtake them. *claimed*: the events that are claimed and not settled."""
        few = len(self.open) > free
        budget = self._in_turn(free) if few else share(self.open, free, self.busy.union(limited))
        if not self.on_trial and not self.returning:
            return budget
        waits = (self.on_trial | self.returning) & {event.lane for event in claimed()}
        return {lane: 0 if lane in waits else 1 if lane in self.on_trial else places for lane, places in budget.items()}

    def returned(self, lanes: Iterable[str]) -> set[str]:
        """The returning ones among these lanes; from now on they count as ordinary."""
        returned = set(self.returning.intersection(lanes))
        self.returning -= returned
        return returned

    def claimed(self, events: Collection[Event], budget: Mapping[str, int]) -> None:
        """Notes which lanes have a backlog: those that used their budget up. A lane that was closed meanwhile has
        none."""
        taken = Counter(event.lane for event in events)
        more = {lane for lane, many in taken.items() if many >= budget[lane]}
        asked = {lane for lane, places in budget.items() if places}
        self.busy = (self.busy - asked | more).intersection(self.open) - self.on_trial
        self._empty_in_a_row = 0 if events else self._empty_in_a_row + len(budget)

    @property
    def all_were_empty(self) -> bool:
        """Whether the claims since the last one that found events cover all lanes."""
        return self._empty_in_a_row >= len(self.open)

    def _in_turn(self, free: int) -> dict[str, int]:
        """The lanes of the next claim when there are more lanes than free places: in turns, lanes with a backlog and
        the next few of all lanes."""
        self._backlog_next = not self._backlog_next
        if self.busy and self._backlog_next:
            return dict.fromkeys(list(self.busy)[:free], 1)
        self.open = self.open[free:] + self.open[:free]
        return dict.fromkeys(self.open[:free], 1)


def share(lanes: Sequence[str], free: int, busy: frozenset[str]) -> dict[str, int]:
    """Splits the free places among lanes: lanes with a backlog share most of them, and the others get a few."""
    if not busy or len(busy) == len(lanes):
        each = max(1, free // len(lanes))
        return dict.fromkeys(lanes, each)
    look = max(1, free // (4 * len(lanes)))
    rest = max(1, (free - look * (len(lanes) - len(busy))) // len(busy))
    return {lane: rest if lane in busy else look for lane in lanes}
