"""The schedule: a lasting intent, whose next event is its head."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import msgspec

from duly.decide.retry import Retry, read_retry
from duly.decide.tags import read_tags, tags_text
from duly.errors import Invalid
from duly.records.etags import schedule_tag
from duly.records.event import SCHEDULE, HoldKind, Status
from duly.records.figures.consequence import CONSEQUENCE_PART, Consequence
from duly.records.finding.counts import COUNTED
from duly.records.marks import FromOne, Id, Instant, Internal, LookedUp, Warnings, told
from duly.records.series import Series
from duly.records.wire.forms import AN_OBJECT, JsonForm, JsonPart, OneField, as_utc, computed
from duly.records.wire.retry import RETRY
from duly.rules.notation import parse_rule, usual_dst
from duly.rules.policies import DEFAULT as NO_POLICIES
from duly.rules.policies import Policies, PolicyOptions, policy_schemas, stored_policies
from duly.rules.timetable import Timetable
from duly.rules.zones import zone_warning


class ScheduleOptions(PolicyOptions, total=False):
    """The options of ``schedules.put`` besides a name, a rule, a type and a payload."""

    template: str | None
    timezone: str | None
    tenant: str
    target: dict[str, Any] | None
    retry: Retry | None
    tags: Collection[str] | None
    enabled: bool | None
    expected: str | None
    dry_run: bool
    transaction: Any
    by: str


class HaltKind(StrEnum):
    """Why a schedule has no next event, or none that fires. The sentence in ``halted`` is for people."""

    ENDED = "ended"  # its rule has no more occurrences
    PAUSED = "paused"  # its next event is held until it is resumed
    ERROR = "error"  # its rule cannot be evaluated


class Passed(StrEnum):
    """What the end of a pause does with the occurrences whose time came during it."""

    SKIP = "skip"  # they are skipped
    FIRE = "fire"  # the misfire policy treats them as missed


class Halt(NamedTuple):
    """Why a series has no next head: the kind for programs, the reason for people."""

    kind: HaltKind
    reason: str


class PassedOver(msgspec.Struct, frozen=True):
    """Occurrences that will not fire. Each has a SKIPPED row with the reason; if there are many, one row stands for
    all."""

    count: FromOne
    first: tuple[Instant, ...]  # the first few
    fire_with: str  # the command that fires the first one, once it is due


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A lasting intent: a rule, the content of its events, and their target. Its next event is its head."""

    name: str
    tenant: str
    type: str
    rule_json: Annotated[str, AN_OBJECT]
    timezone: str = "UTC"
    payload_json: str = "null"
    target_json: str | None = None
    policies_json: str | None = None
    retry_json: str | None = None
    tags_json: str | None = None  # sorted, each once; None: it has none
    enabled: bool = True
    id: Id
    # As of the lookup, for people; the engine itself reads the head.
    next_at: LookedUp[datetime | None] = None
    last_at: LookedUp[datetime | None] = None
    last_status: Annotated[LookedUp[Status | None], told("Status of the event that began at last_at")] = None
    held: Annotated[LookedUp[str | None], told("Why the next event waits, for people")] = None
    hold_kind: Annotated[LookedUp[HoldKind | None], told("Why the next event waits, for programs")] = None
    halted: Annotated[str | None, told("Why no event follows, for people: paused, ended, or the error")] = None
    halt_kind: Annotated[HaltKind | None, told("Why no event follows, for programs")] = None
    paused_since: datetime | None = None  # the instant of the pause; None if it is enabled
    paused_until: datetime | None = None  # when the pause ends by itself; None: it lasts until somebody resumes it
    pause_reason: Annotated[str | None, told("The note of the pause")] = None
    pause_passed: Annotated[
        Passed | None, told("What the end of the pause does with the occurrences whose time came during it")
    ] = None
    origin: Annotated[str | None, told("The Python function that declares it")] = None  # None if it was put by a call
    imported_from: Annotated[str | None, told("Where `duly schedules import` has read it last")] = None
    imported_as: Annotated[str | None, told("What it is called there, such as the number of its line")] = None
    earlier_json: Internal[str | None] = None  # its rules before the last edits, while occurrences of them still matter
    via: Internal[str | None] = None  # how it was last put: see decide/targets/origin.py
    created: datetime | None = None
    updated: datetime | None = None
    passed_over: Annotated[LookedUp[PassedOver | None], told("Occurrences that this request has passed over")] = None
    consequence: LookedUp[Consequence | None] = None  # of a dry run, which returns the schedule as it would be

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about values that are valid, but seldom intended."""
        return () if (found := zone_warning(self.timezone)) is None else (found,)

    @property
    def series(self) -> str:
        """The name of its series."""
        return f"{SCHEDULE}{self.id}"

    @property
    def as_series(self) -> Series:
        """The series of this schedule: the content of its events, and their rule."""
        return Series(
            name=self.series,
            owner=self.name,
            tenant=self.tenant,
            type=self.type,
            rule_json=self.rule_json,
            timezone=self.timezone,
            payload_json=self.payload_json,
            target_json=self.target_json,
            retry_json=self.retry_json,
            via=self.via,
            policies_json=self.policies_json,
            earlier_json=self.earlier_json,
            enabled=self.enabled,
        )

    @property
    def rule(self) -> dict[str, Any]:
        """The rule's JSON form."""
        return msgspec.json.decode(self.rule_json)  # type: ignore[no-any-return]

    @property
    def policies(self) -> Policies:
        return stored_policies(self.policies_json)

    @property
    def timetable(self) -> Timetable:
        """The timetable; raises Invalid or ValueError if the stored rule cannot be understood here."""
        return self.as_series.timetable

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
    def tags(self) -> tuple[str, ...]:
        """The names by which people select it, sorted."""
        return read_tags(self.tags_json)

    @property
    def resumed(self) -> "Schedule":
        """The schedule without its pause."""
        return msgspec.structs.replace(
            self,
            enabled=True,
            halted=None,
            halt_kind=None,
            paused_since=None,
            paused_until=None,
            pause_reason=None,
            pause_passed=None,
        )

    @property
    def tag(self) -> str:
        """The ETag, as ``expected=`` takes it: it changes with every edit."""
        return schedule_tag(self)


def _policies_told(schedule: Schedule) -> dict[str, Any]:
    """All policies, including the behaviour of the rule at clock changes. Policies that cannot be understood are shown
    as they are stored."""
    try:
        policies, rule = schedule.policies, schedule.timetable.rule
    except Exception:  # a row that was edited by hand; `halted` has the error
        return _USUAL | _as_stored(schedule.policies_json)
    written = policies.to_json()
    return written | {"dst": usual_dst(rule) | written["dst"]}


def _as_stored(policies: str | None) -> dict[str, Any]:
    try:
        return dict(msgspec.json.decode(policies or "{}"))
    except (ValueError, TypeError):
        return {}


def _policies_read(seen: Any) -> dict[str, str | None]:
    """Policies as a store keeps them: only those that differ from the defaults. They are not validated, because this
    machine may lack calendars that the server has."""
    told = {name: getattr(seen, name) for name in _USUAL} | {"dst": _own_dst(seen)}
    unusual = {name: value for name, value in told.items() if value != _USUAL[name]}
    return {"policies_json": msgspec.json.encode(unusual).decode() if unusual else None}


def _own_dst(seen: Any) -> Any:
    """The DST policy without the values that the rule implies, which the JSON also has; whether a caller had set them
    explicitly is lost."""
    try:
        usual = usual_dst(parse_rule(msgspec.json.decode(seen.rule), seen.timezone))
    except (Invalid, ValueError):
        return seen.dst
    return {field: value for field, value in seen.dst.items() if value != usual.get(field)}


_USUAL = NO_POLICIES.to_json()
_POLICY_TYPES = {
    name: Annotated[Any, msgspec.Meta(extra_json_schema=schema)] for name, schema in policy_schemas().items()
}

SCHEDULE_JSON = JsonForm(
    Schedule,
    parts={
        "policies_json": JsonPart(_POLICY_TYPES, _policies_told, _policies_read),
        "retry_json": RETRY,
        "tags_json": JsonPart(
            {"tags": Annotated[list[str], told("Names by which it is selected, sorted")]},
            lambda schedule: {"tags": list(schedule.tags)},
            lambda seen: {"tags_json": tags_text(seen.tags)},
        ),
        "paused_since": OneField("paused_since", "paused_since", Instant | None, as_utc),
        "paused_until": OneField("paused_until", "paused_until", Instant | None, as_utc),
        "consequence": CONSEQUENCE_PART,
    },
    computed=(computed(Warnings, "warnings", lambda schedule: schedule.warnings),),
)
SCHEDULE_PAGE = SCHEDULE_JSON.page("Schedules", "schedules", count=COUNTED)
