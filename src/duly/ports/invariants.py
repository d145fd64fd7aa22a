"""The consistency check of a store: whether its rows contradict each other."""

from typing import NamedTuple, Protocol

NEWEST_EXAMINED = 10_000
"""The number of events that a check of the invariants reads: it takes 0.2 s, regardless of the size of the table."""

MOST_VIOLATIONS = 1000
"""The number of rows that a check returns for each invariant."""


class Violation(NamedTuple):
    """A row that contradicts other rows, or itself."""

    invariant: str  # the name of the query that found the row
    kind: str  # event, schedule, user or destination
    id: str
    told: str  # the problem, as a sentence that continues after the kind and the id

    def __str__(self) -> str:
        return f"{self.kind} {self.id} {self.told}"


class Examined(NamedTuple):
    """The violations that were found, the number of examined events, and whether these are all events."""

    violations: list[Violation]
    events: int
    all: bool


class InvariantPort(Protocol):
    async def invariants(self, examine: int | None = NEWEST_EXAMINED) -> Examined:
        """Finds rows that break a rule which holds after every commit. Reads only the newest *examine* events, and as
        many rows of each other table; None reads all, which takes about 12 s for a million events."""
