"""The schedule: a lasting intent, whose next event is its head."""

from datetime import datetime
from typing import Any

import msgspec

from duly.decide.retry import Retry, read_retry
from duly.decide.targets.targets import destination_of
from duly.records.etags import schedule_tag
from duly.records.event import SCHEDULE, lane_of, series_of
from duly.records.marks import Internal, LookedUp
from duly.rules.policies import Policies, stored_policies
from duly.rules.timetable import Timetable, stored_timetable
from duly.rules.zones import zone_warning


class PassedOver(msgspec.Struct, frozen=True):
    """What an act has passed over: occurrences that will not fire, each of which has a SKIPPED row that says why; where
    they are many, one row for all."""

    count: int
    first: tuple[datetime, ...]  # the first few
    fire_with: str  # the command that fires the first one, once its time has come


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A lasting intent: a rule, what to fire and where. Its next event is its head."""

    id: str
    tenant: str
    name: str
    type: str
    rule_json: str
    timezone: str = "UTC"
    policies_json: str | None = None
    payload_json: str = "null"
    target_json: str | None = None
    retry_json: str | None = None
    enabled: bool = True
    halted: str | None = None  # why no head follows: ended, paused, or the rule's error
    origin: str | None = None  # the function that declares it; None when it was put by a call
    earlier_json: Internal[str | None] = None  # what it went by before its last edits, while that matters
    via: Internal[str | None] = None  # how it was last put: see decide/targets/origin.py
    user_id: LookedUp[str | None] = None  # whose calendar events these are
    created: datetime | None = None
    updated: datetime | None = None
    # As of the moment at which it was looked up, for people; the engine itself asks its head.
    next_at: LookedUp[datetime | None] = None
    last_at: LookedUp[datetime | None] = None
    held: LookedUp[str | None] = None  # why the next one waits
    passed_over: LookedUp[PassedOver | None] = None  # by the act that has answered with this schedule

    @property
    def warnings(self) -> tuple[str, ...]:
        """What can be used as it is, and is seldom what was meant."""
        return () if (found := zone_warning(self.timezone)) is None else (found,)

    @property
    def series(self) -> str:
        return f"{SCHEDULE}{self.id}" if self.user_id is None else series_of(self.user_id, self.type)

    @property
    def rule(self) -> dict[str, Any]:
        """The rule's JSON form."""
        return msgspec.json.decode(self.rule_json)  # type: ignore[no-any-return]

    @property
    def policies(self) -> Policies:
        return stored_policies(self.policies_json)

    @property
    def timetable(self) -> Timetable:
        """Invalid or ValueError when what is stored cannot be understood here."""
        return stored_timetable(self.rule_json, self.timezone, self.policies_json, self.earlier_json)

    @property
    def payload(self) -> Any:
        return msgspec.json.decode(self.payload_json)

    @property
    def target(self) -> dict[str, Any] | None:
        return None if self.target_json is None else msgspec.json.decode(self.target_json)

    @property
    def retry(self) -> Retry:
        return read_retry(self.retry_json)

    @property
    def lane(self) -> str:
        return lane_of(self.type, self.target)

    @property
    def destination(self) -> str | None:
        return destination_of(self.target)

    @property
    def tag(self) -> str:
        """What ``expected=`` takes: another one as soon as anybody has edited it."""
        return schedule_tag(self)
