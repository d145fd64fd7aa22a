"""The user: whose names, dates and zone calendar events use."""

from datetime import date, datetime, time
from typing import Annotated, Any, TypedDict

import msgspec

from duly.records.etags import user_tag
from duly.records.marks import Id, Internal, Warnings
from duly.records.wire.forms import AN_OBJECT, JsonForm, Part, as_raw, computed
from duly.rules.zones import zone_warning


class OptionalUserFields(TypedDict, total=False):
    """What a user may have; None takes it away."""

    key: str | None
    anniversary: date | str | None
    delivery_time: time | str | None
    leap: str | None
    target: dict[str, Any] | None
    attributes: dict[str, Any] | None


class UserFields(OptionalUserFields):
    """What is said of a new user."""

    first_name: str
    last_name: str
    date_of_birth: date | str
    timezone: str


class UserChanges(OptionalUserFields, total=False):
    """What can be changed of a user."""

    first_name: str
    last_name: str
    date_of_birth: date | str
    timezone: str


class User(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Whose names, dates and zone calendar events use."""

    id: Id
    tenant: str
    key: str | None = None  # what the caller's own system calls this user; unique within the tenant
    first_name: str
    last_name: str
    date_of_birth: date
    timezone: str
    anniversary: date | None = None
    delivery_time: time | None = None  # on the user's own clocks; None: at the usual time
    leap: str | None = None  # when 29 February is kept in other years; None: as the event type says
    target_json: str | None = None
    attributes_json: str | None = None
    created: datetime | None = None
    created_by: Internal[str | None] = None
    updated: datetime | None = None
    usual_time: Internal[time | None] = None  # when everybody was written to as this user was planned, until a refresh
    via: Internal[str | None] = None  # how its target came: see decide/targets/origin.py

    @property
    def target(self) -> dict[str, Any] | None:
        return None if self.target_json is None else msgspec.json.decode(self.target_json)

    @property
    def attributes(self) -> dict[str, Any]:
        """Whatever else event types need to know."""
        return {} if self.attributes_json is None else msgspec.json.decode(self.attributes_json)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What can be used as it is, and is seldom what was meant."""
        return () if (found := zone_warning(self.timezone)) is None else (found,)

    @property
    def tag(self) -> str:
        """What ``expected=`` takes: another one as soon as anybody has edited the user."""
        return user_tag(self)


NO_ATTRIBUTES = "{}"
"""What is told of a user without any; nothing is stored then."""


def _attributes(seen: Any) -> dict[str, str | None]:
    text = bytes(seen.attributes).decode()
    return {"attributes_json": None if text == NO_ATTRIBUTES else text}


USER_JSON = JsonForm(
    User,
    parts={
        "attributes_json": Part(
            {"attributes": Annotated[msgspec.Raw, AN_OBJECT]},
            lambda user: {"attributes": as_raw(user.attributes_json or NO_ATTRIBUTES)},
            _attributes,
        )
    },
    computed=(computed(Warnings, "warnings", lambda user: user.warnings),),
)
USER_PAGE = USER_JSON.page("Users", "users")
