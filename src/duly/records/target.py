"""Targets that are stored under a name, and the limits and state of destinations."""

from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from duly.decide.targets.rates import read_rate, show_rate
from duly.decide.targets.targets import WEBHOOK, shown
from duly.records.marks import FromOne, Id, Instant, Internal, LookedUp, told
from duly.records.wire.forms import JsonForm, JsonPart, OneField, computed

DESTINATION_OF_ALL = ""
"""Stands for all destinations of a tenant, in the table of limits."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A destination for events that name it. Its secrets are encrypted; the newest is shown once, by the call that
    created it."""

    id: Id
    tenant: str
    name: str
    channel: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["webhook", "http"]})]
    spec_json: str  # the public part: the URL, how it is sent, the names of headers
    sealed: Internal[str | None] = None  # the secret part, encrypted
    via: Internal[str | None] = None  # how it was last put: see decide/targets/origin.py
    created: datetime | None = None
    updated: datetime | None = None
    secret: LookedUp[str | None] = None  # only in the result of the call that created it; never read back
    new: Internal[LookedUp[bool]] = False  # whether the call that returns it has created it; never read back
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
        """False while the target waits until a person enables it."""
        return self.known is None or self.known.parked is None or self.known.probe_at is not None


class Resealed(NamedTuple):
    """The result of re-encrypting the secrets of targets: how many were re-encrypted, how many already used the newest
    key, and the tenant and name of those that no available key can decrypt."""

    resealed: int
    unchanged: int
    closed: list[tuple[str, str]]


class Known(msgspec.Struct, frozen=True):
    """The limits of a destination, and whether it is parked."""

    tenant: str
    destination: str
    concurrency: FromOne | None = None  # concurrent deliveries of each worker
    rate: float | None = None  # deliveries per second, of all workers together
    parked: Annotated[str | None, told("Why the target is parked and nothing is sent")] = None
    since: datetime | None = None
    probe_at: datetime | None = None  # None while parked: it waits until a person enables it
    target: Internal[LookedUp[Target | None]] = None  # if the destination is a stored target
    within: Internal[LookedUp[bool]] = False  # if the destination is an origin: whether one of its URLs is parked


USUAL = {"format": "standard", "method": "POST"}
"""The values that apply if a target does not set them."""


def _per_second(written: str | None) -> float | None:
    return None if written is None else 1 / read_rate(written).total_seconds()


RATE = OneField("rate", "rate", str | None, show_rate, _per_second)
"""A rate per second, in the notation that people write."""

KNOWN_JSON = JsonForm(
    Known,
    parts={
        "destination": OneField(
            "destination", "destination", str | None, lambda one: one or None, lambda one: one or ""
        ),
        "rate": RATE,
        "since": JsonPart(
            {"parked_since": Instant | None},
            lambda known: {"parked_since": None if known.parked is None else known.since},
            lambda seen: {"since": seen.parked_since},
        ),
    },
)
"""The JSON of a destination. One without a destination stands for all destinations of its tenant."""

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
    "retry_statuses": Annotated[
        list[int] | msgspec.UnsetType | None,
        told("The statuses that are retried, of a target for http; null: 401, 403, 404, 408, 425, 429 and 5xx"),
    ],
    "headers": Annotated[list[str], told("Names of the headers; values are never shown")],
}


def _spec_told(target: Target) -> dict[str, Any]:
    spec = target.spec
    own = "format" if target.channel == WEBHOOK else "method"
    return {
        "url": spec["url"],
        own: spec.get(own, USUAL[own]),
        "timeout": spec.get("timeout"),
        **({} if target.channel == WEBHOOK else {"retry_statuses": spec.get("retry_statuses")}),
        "headers": spec.get("headers", []),
    }


def _spec_read(seen: Any) -> dict[str, str]:
    """Leaves the default format or method out; whether it was stored explicitly is lost."""
    told = {name: getattr(seen, name) for name in _SPEC}
    nothing: tuple[Any, ...] = (None, msgspec.UNSET)
    spec = {name: value for name, value in told.items() if value not in nothing and value != USUAL.get(name)}
    if not spec["headers"]:
        del spec["headers"]
    return {"spec_json": msgspec.json.encode(spec).decode()}


TARGET_JSON = JsonForm(
    Target,
    parts={
        "spec_json": JsonPart(_SPEC, _spec_told, _spec_read),
        "known": JsonPart(_KNOWN, _known_told, _known_read),
        "secret": JsonPart(
            {"secret": Annotated[str | msgspec.UnsetType | None, told("Shown only once, when it is new")]},
            lambda _: {},
            lambda seen: {"secret": None if seen.secret is msgspec.UNSET else seen.secret},
        ),
    },
    computed=(computed(bool, "enabled", lambda target: target.enabled),),
)
"""The JSON of a target. Only the acts that create a secret include it."""

TARGET_PAGE = TARGET_JSON.page("Targets", "targets")
