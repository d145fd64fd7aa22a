"""The user: the names, dates and time zone that calendar events use."""

from datetime import date, datetime, time
from typing import Annotated, Any, TypedDict

import msgspec

from duly.records.etags import user_tag
from duly.records.figures.consequence import CONSEQUENCE_PART, Consequence
from duly.records.finding.counts import COUNTED
from duly.records.marks import Id, Internal, LookedUp, Warnings
from duly.records.wire.forms import AN_OBJECT, JsonForm, JsonPart, as_raw
from duly.rules.zones import zone_warning


class OptionalUserFields(TypedDict, total=False):
    """The optional fields of a user; None removes the value."""

    key: str | None
    anniversary: date | str | None
    delivery_time: time | str | None
    leap: str | None
    target: dict[str, Any] | None
    attributes: dict[str, Any] | None


class UserFields(OptionalUserFields):
    """The fields of a new user."""

    first_name: str
    last_name: str
    date_of_birth: date | str
    timezone: str


class UserChanges(OptionalUserFields, total=False):
    """The fields of a user that can be changed."""

    first_name: str
    last_name: str
    date_of_birth: date | str
    timezone: str


class Notes(tuple[str, ...]):
    """Warnings of an act. They make no difference: the user whom an act returns equals the one who is read later."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, tuple)

    __hash__ = None  # type: ignore[assignment]


class User(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The names, dates and time zone that calendar events use."""

    id: Id
    tenant: str
    key: str | None = None  # the user's id in the caller's own system; unique within the tenant
    first_name: str
    last_name: str
    date_of_birth: date
    timezone: str
    anniversary: date | None = None
    delivery_time: time | None = None  # in the user's time zone; None: at the usual time
    leap: str | None = None  # the day that replaces 29 February in other years; None: as the event type says
    target_json: str | None = None
    attributes_json: str | None = None
    created: datetime | None = None
    created_by: Internal[str | None] = None
    updated: datetime | None = None
    usual_time: Internal[time | None] = None  # the usual time when the user was planned; kept until a refresh
    via: Internal[str | None] = None  # how its target was put: see decide/targets/origin.py
    noted: LookedUp[tuple[str, ...]] = ()  # warnings of the act that returns it; not read back
    consequence: LookedUp[Consequence | None] = None  # of a dry run, which returns the user as it would be

    @property
    def target(self) -> dict[str, Any] | None:
        return None if self.target_json is None else msgspec.json.decode(self.target_json)

    @property
    def attributes(self) -> dict[str, Any]:
        """Further values that event types need."""
        return {} if self.attributes_json is None else msgspec.json.decode(self.attributes_json)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about values that are valid, but seldom intended; of a user who was added or updated, also about
        events that have nowhere to go."""
        found = zone_warning(self.timezone)
        return self.noted if found is None else (found, *self.noted)

    @property
    def tag(self) -> str:
        """The ETag, as ``expected=`` takes it: it changes with every edit of the user."""
        return user_tag(self)


NO_ATTRIBUTES = "{}"
"""The JSON of a user without attributes; the column is empty then."""


def _attributes(seen: Any) -> dict[str, str | None]:
    text = bytes(seen.attributes).decode()
    return {"attributes_json": None if text == NO_ATTRIBUTES else text}


def _noted(seen: Any) -> dict[str, tuple[str, ...]]:
    """The warnings, except those that follow from the fields."""
    return {"noted": Notes(one for one in seen.warnings if one != zone_warning(seen.timezone))}


USER_JSON = JsonForm(
    User,
    parts={
        "attributes_json": JsonPart(
            {"attributes": Annotated[msgspec.Raw, AN_OBJECT]},
            lambda user: {"attributes": as_raw(user.attributes_json or NO_ATTRIBUTES)},
            _attributes,
        ),
        "consequence": CONSEQUENCE_PART,
        "noted": JsonPart({"warnings": Warnings}, lambda user: {"warnings": user.warnings}, _noted),
    },
)
USER_PAGE = USER_JSON.page("Users", "users", count=COUNTED)
