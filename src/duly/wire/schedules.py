"""Schedules as JSON, both ways: what is written can be edited and read back."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from duly.decide.checks import name_problems, retry_problems, target_problems, write_json
from duly.decide.preview import Preview
from duly.decide.retry import Retry, parse_retry
from duly.errors import Invalid, Problem
from duly.instants import write_instant
from duly.records.results import Backfilled, ReplannedHead, Resumed
from duly.records.schedule import PassedOver, Schedule
from duly.rules.notation import parse_rule, usual_dst, zone_of, zone_problems
from duly.rules.policies import DEFAULT as NO_POLICIES
from duly.rules.policies import FIELDS as POLICIES
from duly.rules.policies import read_policies
from duly.rules.recurrence import DEFAULT_ZONE, Rule

FIELDS = ("name", "tenant", "type", "rule", "timezone", "payload", "target", *POLICIES, "retry", "enabled")
READ_ONLY = (
    "id",
    "next_at",
    "last_at",
    "held",
    "halted",
    "origin",
    "created_at",
    "updated_at",
    "passed_over",
    "warnings",
)
"""What a schedule tells and nobody can set: ignored where it is read back."""


# -- written


def schedule_to_json(schedule: Schedule) -> dict[str, Any]:
    """A schedule with all that it left to the defaults. One that cannot be understood is shown as it is stored."""
    return {
        "name": schedule.name,
        "tenant": schedule.tenant,
        "type": schedule.type,
        "rule": msgspec.Raw(schedule.rule_json.encode()),
        "timezone": schedule.timezone,
        "payload": msgspec.Raw(schedule.payload_json.encode()),
        "target": schedule.target,
        **_policies(schedule),
        "retry": schedule.retry.to_json(),
        "enabled": schedule.enabled,
        "id": schedule.id,
        "next_at": write_instant(schedule.next_at),
        "last_at": write_instant(schedule.last_at),
        "held": schedule.held,
        "halted": schedule.halted,
        "origin": schedule.origin,
        "created_at": write_instant(schedule.created),
        "updated_at": write_instant(schedule.updated),
        "passed_over": passed_over_to_json(schedule.passed_over),
        "warnings": schedule.warnings,
    }


def passed_over_to_json(over: PassedOver | None) -> dict[str, Any] | None:
    """What an act has passed over; nothing, where a schedule is only looked at."""
    if over is None:
        return None
    return {"count": over.count, "first": [write_instant(at) for at in over.first], "fire_with": over.fire_with}


def _policies(schedule: Schedule) -> dict[str, Any]:
    try:
        policies, rule = schedule.policies, schedule.timetable.rule
    except Exception:  # whatever somebody wrote there by hand; `halted` tells of it
        return NO_POLICIES.to_json() | _as_stored(schedule.policies_json)
    written = policies.to_json()
    return written | {"dst": usual_dst(rule) | written["dst"]}


def _as_stored(policies: str | None) -> dict[str, Any]:
    try:
        return dict(msgspec.json.decode(policies or "{}"))
    except (ValueError, TypeError):
        return {}


def preview_to_json(one: Preview) -> dict[str, Any]:
    return {"due_at": write_instant(one.due), "local_at": one.local.isoformat(), "note": one.note}


def resumed_to_json(resumed: Resumed) -> dict[str, Any]:
    return schedule_to_json(resumed.schedule) | {"passed": resumed.passed, "fires": resumed.fires}


def backfilled_to_json(backfilled: Backfilled) -> dict[str, Any]:
    return {"label": backfilled.label, "events": backfilled.ids, "existing": backfilled.existing}


def replanned_to_json(moved: ReplannedHead) -> dict[str, Any]:
    return {
        "schedule": moved.schedule,
        "tenant": moved.tenant,
        "timezone": moved.timezone,
        "event": moved.event,
        "old_due_at": write_instant(moved.old),
        "new_due_at": write_instant(moved.new),
        "zone_data": moved.zone_data,
    }


# -- read


def read_schedule(
    written: Any, *, name: str | None = None, tenant: str | None = None, channels: Collection[str] | None = None
) -> dict[str, Any]:
    """The arguments for ``duly.schedules.put``; Invalid with all that is wrong. A *name* or *tenant* from elsewhere,
    such as an address, may not contradict the object's own. What is left to find, the verb will; with *channels*, that
    is told of a bad one as well."""
    if not isinstance(written, Mapping):
        raise Invalid([Problem("schedule", f"expected an object with {', '.join(FIELDS)}")])
    given = {field: value for field, value in written.items() if field in FIELDS and value is not None}
    problems = _unknown(written) + _decide(given, "name", name) + _decide(given, "tenant", tenant)
    problems += [Problem(field, "is missing") for field in ("name", "type", "rule") if field not in given]
    for field in ("name", "type", "tenant"):
        problems += name_problems(field, given[field]) if field in given else ()
    if not isinstance(given.get("enabled", True), bool):
        problems.append(Problem("enabled", f"must be true or false, not {given['enabled']!r:.50}"))
    zone = given.get("timezone") or zone_of(given.get("rule")) or DEFAULT_ZONE
    if found := zone_problems(zone):
        problems += found
        zone = DEFAULT_ZONE
    policies = {field: given.pop(field) for field in POLICIES if field in given}
    problems += _problems(lambda: read_policies(policies, zone))
    if "rule" in given:
        problems += _problems(lambda: parse_rule(given["rule"], zone))
    if "retry" in given:
        problems += _problems(lambda: given.update(retry=_retry(given["retry"])))
    if problems:
        raise Invalid([*problems, *_left_to_find(given, channels)])
    if isinstance(policies.get("dst"), dict):
        policies["dst"] = _left_open(policies["dst"], parse_rule(given["rule"], zone))
    return given | policies


def _left_to_find(given: Mapping[str, Any], channels: Collection[str] | None) -> list[Problem]:
    written = write_json(given.get("payload"), "payload")
    problems = [] if channels is None else list(target_problems(given.get("target"), channels))
    return [*problems, written] if isinstance(written, Problem) else problems


def _unknown(written: Mapping[Any, Any]) -> list[Problem]:
    return [
        Problem(str(field)[:50], f"is unknown; known: {', '.join(FIELDS)}")
        for field in written
        if field not in FIELDS and field not in READ_ONLY
    ]


def _decide(given: dict[str, Any], field: str, elsewhere: str | None) -> list[Problem]:
    if elsewhere is None:
        return []
    own = given.get(field)
    given[field] = elsewhere
    return (
        [] if own in (None, elsewhere) else [Problem(field, f"{own!r:.50} is not {elsewhere!r:.50}: give one of them")]
    )


def _retry(written: Any) -> Retry:
    retry = parse_retry(written)
    if problems := list(retry_problems(retry)):
        raise Invalid(problems)
    return retry


def _left_open(dst: dict[str, Any], rule: Rule) -> dict[str, Any]:
    """Without what the rule does anyway, so that a schedule which is written and read back has not changed."""
    usual = usual_dst(rule)
    return {field: value for field, value in dst.items() if value != usual[field]}


def _problems(read: Callable[[], Any]) -> list[Problem]:
    try:
        read()
    except Invalid as error:
        return list(error.problems)
    return []
