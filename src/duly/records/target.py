"""Targets that are stored under a name, and what is known of where events go."""

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from duly.decide.targets.targets import shown
from duly.records.marks import Internal, LookedUp

DESTINATION_OF_ALL = ""
"""Stands for all destinations of a tenant, where limits are."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where events go that name it. Its secrets are sealed; the newest is shown once, by the call that made it."""

    id: str
    tenant: str
    name: str
    channel: str  # webhook or http
    spec_json: str  # what may be seen: the URL, how it is sent, the names of headers
    sealed: Internal[str | None] = None  # what may not
    via: Internal[str | None] = None  # how it was last put: see decide/targets/origin.py
    created: datetime | None = None
    updated: datetime | None = None
    secret: LookedUp[str | None] = None  # as it was just made; never read back
    new: LookedUp[bool] = False  # whether the call that has just put it made it; never read back
    known: LookedUp["Known | None"] = None

    def __repr__(self) -> str:
        return f"Target({self.tenant!r}, {self.name!r}, {self.channel!r}, {shown(self.url)!r})"

    @property
    def spec(self) -> dict[str, Any]:
        return msgspec.json.decode(self.spec_json)  # type: ignore[no-any-return]

    @property
    def url(self) -> str:
        return str(self.spec["url"])

    @property
    def enabled(self) -> bool:
        """Whether it waits for a person."""
        return self.known is None or self.known.parked is None or self.known.probe_at is not None


class Resealed(NamedTuple):
    """What became of sealing anew what targets keep secret: how many were, how many had the newest key already, and
    which ones, by tenant and name, no key here opens."""

    resealed: int
    unchanged: int
    closed: list[tuple[str, str]]


class Known(msgspec.Struct, frozen=True):
    """What is known of a destination: how much it is to be given, and whether it is parked."""

    tenant: str
    destination: str
    concurrency: int | None = None  # at once, for each worker
    rate: float | None = None  # a second, for all workers together
    parked: str | None = None  # why nothing is sent
    since: datetime | None = None
    probe_at: datetime | None = None  # None while parked: until a person enables it
    target: LookedUp[Target | None] = None  # where the destination is a stored one
    within: LookedUp[bool] = False  # where it is an origin: whether one of its URLs is parked
