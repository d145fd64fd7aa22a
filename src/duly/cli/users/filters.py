"""Filters of users as options of the command line."""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.decide.calendars.attribute_filters import read_attribute
from duly.errors import Misuse
from duly.records.finding.users import UserFilters


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class UserOptions:
    """Options that filter users; all given ones must match."""

    tenant: Annotated[str | None, Parameter(help="Only in this tenant")] = None
    name: Annotated[
        str | None, Parameter(help="Whose first name, last name, or both in either order begin with this")
    ] = None
    key: Annotated[str | None, Parameter(help="Only the user with this key")] = None
    timezone: Annotated[str | None, Parameter(help="Only in this time zone", metavar="ZONE")] = None
    attribute: Annotated[
        list[str] | None,
        Parameter(
            help="Only with this attribute, such as plan=pro or address.city=Graz; may be repeated",
            metavar="NAME=VALUE",
        ),
    ] = None

    def filters(self) -> UserFilters:
        attributes = _having(self.attribute or [])
        return UserFilters(name=self.name, key=self.key, timezone=self.timezone, attributes=attributes)


def _having(written: list[str]) -> dict[str, Any]:
    having: dict[str, Any] = {}
    for one in written:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise Misuse(f"--attribute {one!r:.50} is not possible: expected NAME=VALUE, such as plan=pro")
        if name in having:
            raise Misuse(f"--attribute {name} is given twice: give it only once")
        having[name] = read_attribute(value)
    return having


EVERY_USER = UserOptions()
