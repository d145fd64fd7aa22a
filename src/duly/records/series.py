"""The series: the recurring events that follow a head. A schedule has one series, and a user has one for each type of
event."""

from typing import Any

import msgspec

from duly.decide.targets.targets import destination_of
from duly.records.event import Event, lane_of, schedule_of, user_of
from duly.rules.policies import Policies, stored_policies
from duly.rules.recurrence import DEFAULT_ZONE
from duly.rules.timetable import Timetable, stored_timetable


class Series(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A rule, and the content of its events. It is not a row: it comes from a stored schedule, or from the head that
    carries it."""

    name: str  # schedule:<id> or user:<id>:<type>
    tenant: str
    type: str
    rule_json: str
    timezone: str = DEFAULT_ZONE
    payload_json: str = "null"
    target_json: str | None = None
    retry_json: str | None = None
    via: str | None = None  # how it was last put: see decide/targets/origin.py
    owner: str | None = None  # the name of its schedule, or the key of its user
    # Only the series of a schedule has these.
    policies_json: str | None = None
    earlier_json: str | None = None  # its rules before the last edits, while occurrences of them still matter
    enabled: bool = True

    @property
    def schedule_id(self) -> str | None:
        """The id of the schedule; None if the series is a user's."""
        return schedule_of(self.name)

    @property
    def carried_rule(self) -> str | None:
        """The rule, if the heads carry it themselves, as those of a user do; None otherwise."""
        return None if user_of(self.name) is None else self.rule_json

    @property
    def policies(self) -> Policies:
        return stored_policies(self.policies_json)

    @property
    def timetable(self) -> Timetable:
        """The timetable; raises Invalid or ValueError if the stored rule cannot be understood here."""
        return stored_timetable(self.rule_json, self.timezone, self.policies_json, self.earlier_json)

    @property
    def target(self) -> dict[str, Any] | None:
        return None if self.target_json is None else msgspec.json.decode(self.target_json)

    @property
    def lane(self) -> str:
        return lane_of(self.type, self.target)

    @property
    def destination(self) -> str | None:
        return destination_of(self.target)


def carried(head: Event) -> Series | None:
    """The series that a head carries itself, as a user's head does: its own row has everything that its successor
    needs."""
    if head.rule_json is None or head.series is None:
        return None
    return Series(
        name=head.series,
        tenant=head.tenant,
        type=head.type,
        rule_json=head.rule_json,
        timezone=head.timezone or DEFAULT_ZONE,
        payload_json=head.payload_json,
        target_json=head.target_json,
        retry_json=head.retry_json,
        via=head.via,
        owner=head.owner,
    )
