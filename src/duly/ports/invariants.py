"""What can be asked of a store about itself: whether its rows contradict each other."""

from typing import NamedTuple, Protocol

NEWEST_EXAMINED = 10_000
"""How many events a look at the invariants reads: it takes 0.2 s, however many there are."""

MOST_VIOLATIONS = 1000
"""How many rows it tells of for each invariant."""


class Violation(NamedTuple):
    """A row that contradicts others, or itself."""

    invariant: str  # the name of the query that has found it
    kind: str  # event, schedule, user or destination
    id: str
    told: str  # what is wrong: a sentence that goes on from the kind and the id

    def __str__(self) -> str:
        return f"{self.kind} {self.id} {self.told}"


class Examined(NamedTuple):
    """What was found, and in how many events; whether those are all that there are."""

    violations: list[Violation]
    events: int
    all: bool


class InvariantPort(Protocol):
    async def invariants(self, examine: int | None = NEWEST_EXAMINED) -> Examined:
        """Look for rows of which something is not true that is true after every commit. Only so many of the newest
        events are read, and as many of what else there is; None: all, which takes some 12 s for a million."""
