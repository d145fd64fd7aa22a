"""Compares what the store says with what the workers did, claim by claim."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from duly import Duly, Event, Status
from duly.records.history import Entry


class Claimed(NamedTuple):
    """One claim of one event: nobody else has this version of it."""

    event: str
    version: int


AWAY = ("given back", "the database could not be reached")


class Comparison(NamedTuple):
    events: dict[str, Event]
    history: dict[str, list[Entry]]

    @classmethod
    async def of(cls, app: Duly) -> "Comparison":
        events = await cls._events(app)
        return cls(events, {id: await app.events.history(id) for id in events})

    @classmethod
    async def of_suspects(cls, app: Duly) -> "Comparison":
        """With the history of only those that were claimed more than once: there may be many others."""
        events = await cls._events(app)
        return cls(events, {id: await app.events.history(id) for id, event in events.items() if event.version > 2})

    @classmethod
    async def _events(cls, app: Duly) -> dict[str, Event]:
        events: dict[str, Event] = {}
        while page := await app.events.find(limit=1000, after=min(events, default=None)):
            events |= {event.id: event for event in page}
        return events

    def ends(self) -> dict[Claimed, Entry]:
        """How each claim ended, as the history tells it."""
        return {Claimed(id, entry.version or 0): entry for id, entries in self.history.items() for entry in entries}

    def in_status(self, status: Status) -> list[Event]:
        return [event for event in self.events.values() if event.status is status]

    def every_claim_has_one_end(self) -> None:
        """Interrupted, interrupted, …, delivered: the versions count on without a gap, and nothing is told twice.
        On a busy machine the database may be out of reach for a moment: then a claim is given back, and comes again."""
        for id, entries in self.history.items():
            event = self.events[id]
            acts = [entry.act for entry in entries if (entry.act, entry.detail) != AWAY]
            assert acts == ["interrupted"] * event.interruptions + ["delivered"], f"{id}: {entries}"
            assert [entry.version for entry in entries] == list(range(2, event.version + 1)), f"{id}: {entries}"
            assert event.attempts == 1, event

    def only_kills_interrupted(self, killed: dict[str, float], lease: timedelta) -> None:
        for id, entries in self.history.items():
            for entry in entries:
                if entry.act == "interrupted":
                    assert entry.worker in killed, f"{id}: {entry} tells of a worker that nobody killed"
                    assert entry.at >= datetime.fromtimestamp(killed[entry.worker], UTC), f"{id}: {entry} is too early"
                    assert entry.claimed is not None
                    assert entry.at >= entry.claimed + lease, f"{id}: {entry} is from before the lease expired"

    def points_were_what_they_say(
        self, struck: list[dict[str, Any]], effects: Mapping[Claimed, str], lasting: set[str]
    ) -> None:
        """What each kill at a named point left behind for the events that its worker had in hand: how their claims
        ended, and, from the *lasting* points on, their effects."""
        ends = self.ends()
        for kill in struck:
            for claim in (Claimed(*claim) for claim in kill["claims"]):
                end = ends.get(claim)
                own = end.act if end is not None and end.worker == kill["worker"] else None
                told = f"{kill}: {claim} ended as {end}"
                if kill["point"] == "claiming":  # it was not committed, so this worker never had the claim
                    assert own is None, told
                elif kill["point"] == "settled":
                    assert own == "delivered", told
                else:
                    assert own == "interrupted", told
                assert (effects.get(claim) == kill["worker"]) == (kill["point"] in lasting), told
