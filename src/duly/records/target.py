"""Targets that are stored under a name, and what is known of where events go."""

from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from duly.decide.targets.rates import read_rate, show_rate
from duly.decide.targets.targets import WEBHOOK, shown
from duly.records.marks import FromOne, Id, Instant, Internal, LookedUp, told
from duly.records.wire.forms import JsonForm, OneField, Part, computed

DESTINATION_OF_ALL = ""
"""Stands for all destinations of a tenant, where limits are."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where events go that name it. Its secrets are sealed; the newest is shown once, by the call that made it."""

    id: Id
    tenant: str
    name: str
    channel: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["webhook", "http"]})]
    spec_json: str  # what may be seen: the URL, how it is sent, the names of headers
    sealed: Internal[str | None] = None  # what may not
    via: Internal[str | None] = None  # how it was last put: see decide/targets/origin.py
    created: datetime | None = None
    updated: datetime | None = None
    secret: LookedUp[str | None] = None  # as it was just made; never read back
    new: Internal[LookedUp[bool]] = False  # whether the call that has just put it made it; never read back
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
    concurrency: FromOne | None = None  # at once, for each worker
    rate: float | None = None  # a second, for all workers together
    parked: Annotated[str | None, told("Why nothing is sent")] = None
    since: datetime | None = None
    probe_at: datetime | None = None  # None while parked: until a person enables it
    target: Internal[LookedUp[Target | None]] = None  # where the destination is a stored one
    within: Internal[LookedUp[bool]] = False  # where it is an origin: whether one of its URLs is parked


USUAL = {"format": "standard", "method": "POST"}
"""What holds where a target does not say it."""


def _per_second(written: str | None) -> float | None:
    return None if written is None else 1 / read_rate(written).total_seconds()


RATE = OneField("rate", "rate", str | None, show_rate, _per_second)
"""So many a second, as people write it."""

KNOWN_JSON = JsonForm(
    Known,
    parts={
        "destination": OneField(
            "destination", "destination", str | None, lambda one: one or None, lambda one: one or ""
        ),
        "rate": RATE,
        "since": Part(
            {"parked_since": Instant | None},
            lambda known: {"parked_since": None if known.parked is None else known.since},
            lambda seen: {"since": seen.parked_since},
        ),
    },
)
"""One without a destination stands for all of its tenant's."""

_KNOWN = {name: hint for name, hint in KNOWN_JSON.types.items() if name not in ("tenant", "destination")}


def _known_told(target: Target) -> dict[str, Any]:
    told = KNOWN_JSON.write(target.known or Known(target.tenant, target.name))
    return {name: told[name] for name in _KNOWN}


def _known_read(seen: Any) -> dict[str, Known]:
    return {
        "known": Known(
            seen.tenant,
            seen.name,
            seen.concurrency,
            _per_second(seen.rate),
            seen.parked,
            seen.parked_since,
            seen.probe_at,
        )
    }


_SPEC = {
    "url": str,
    "format": str | msgspec.UnsetType,
    "method": str | msgspec.UnsetType,
    "timeout": str | None,
    "headers": Annotated[list[str], told("Their names; values are never shown")],
}


def _spec_told(target: Target) -> dict[str, Any]:
    spec = target.spec
    own = "format" if target.channel == WEBHOOK else "method"
    return {
        "url": spec["url"],
        own: spec.get(own, USUAL[own]),
        "timeout": spec.get("timeout"),
        "headers": spec.get("headers", []),
    }


def _spec_read(seen: Any) -> dict[str, str]:
    """Whether the usual format or method was written down is lost."""
    told = {name: getattr(seen, name) for name in _SPEC}
    nothing: tuple[Any, ...] = (None, msgspec.UNSET, [])
    spec = {name: value for name, value in told.items() if value not in nothing and value != USUAL.get(name)}
    return {"spec_json": msgspec.json.encode(spec).decode()}


TARGET_JSON = JsonForm(
    Target,
    parts={
        "spec_json": Part(_SPEC, _spec_told, _spec_read),
        "known": Part(_KNOWN, _known_told, _known_read),
        "secret": Part(
            {"secret": Annotated[str | msgspec.UnsetType | None, told("Shown this once, where it is new")]},
            lambda _: {},
            lambda seen: {"secret": None if seen.secret is msgspec.UNSET else seen.secret},
        ),
    },
    computed=(computed(bool, "enabled", lambda target: target.enabled),),
)
"""The secret is told by the acts that make one, and by them alone."""

TARGET_PAGE = TARGET_JSON.page("Targets", "targets")
