"""Reads schedules from JSON: a schedule that the API has written can be edited and read back."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from duly.decide.checks import name_problems, retry_problems, target_problems, write_json
from duly.decide.retry import Retry, parse_retry
from duly.decide.tags import tags_problems
from duly.errors import Invalid, Problem
from duly.records.schedule import SCHEDULE_JSON, Schedule
from duly.rules.notation import parse_rule, usual_dst, zone_of, zone_problems
from duly.rules.policies import FIELDS as POLICIES
from duly.rules.policies import SPANS, read_policies
from duly.rules.recurrence import DEFAULT_ZONE, Rule
from duly.values.durations import EXAMPLES as A_DURATION

SETTINGS = ("type", "rule", "timezone", "payload", "target", *POLICIES, "retry", "tags", "enabled")
"""The fields of a schedule that a template may set."""

FIELDS = ("name", "tenant", *SETTINGS)
TAKEN = (*FIELDS, "template")
"""What a request for a schedule may have; a schedule that is shown has no template."""
READ_ONLY = tuple(field for field in SCHEDULE_JSON.types if field not in FIELDS)
"""The fields of a schedule that nobody can set: they are ignored when it is read back."""


def read_schedule(
    written: Any,
    *,
    name: str | None = None,
    tenant: str | None = None,
    channels: Collection[str] | None = None,
    partial: bool = False,
) -> dict[str, Any]:
    """The arguments for ``duly.schedules.put``; raises Invalid with all problems. A *name* or *tenant* from elsewhere,
    such as the URL path, must not contradict the object's own. The verb checks the rest; if there are problems already,
    the target is checked against *channels* here too. Only a *partial* one, or one with a template, may lack a type and
    a rule."""
    if not isinstance(written, Mapping):
        raise Invalid([Problem("schedule", f"expected an object with {', '.join(TAKEN)}")])
    given = {field: value for field, value in written.items() if field in TAKEN and value is not None}
    problems = _unknown(written) + _decide(given, "name", name) + _decide(given, "tenant", tenant)
    needed = ("name",) if partial or "template" in given else ("name", "type", "rule")
    problems += [Problem(field, "is missing") for field in needed if field not in given]
    for field in ("name", "type", "tenant", "template"):
        problems += name_problems(field, given[field]) if field in given else ()
    if not isinstance(given.get("enabled", True), bool):
        problems.append(Problem("enabled", f"must be true or false, not {given['enabled']!r:.50}"))
    problems += tags_problems(given["tags"]) if "tags" in given else ()
    zone = given.get("timezone") or zone_of(given.get("rule")) or DEFAULT_ZONE
    if found := zone_problems(zone):
        problems += found
        zone = DEFAULT_ZONE
    policies = {field: given.pop(field) for field in POLICIES if field in given}
    for field in SPANS.keys() & policies.keys():
        if not isinstance(policies[field], str):
            problems.append(Problem(field, f"expected {A_DURATION}, not {policies.pop(field)!r:.50}"))
    problems += _problems(lambda: read_policies(policies, zone))
    if "rule" in given:
        problems += _problems(lambda: parse_rule(given["rule"], zone))
    if "retry" in given:
        problems += _problems(lambda: given.update(retry=_retry(given["retry"])))
    if problems:
        raise Invalid([*problems, *_left_to_find(given, channels)])
    if isinstance(policies.get("dst"), dict) and "rule" in given:
        policies["dst"] = _left_open(policies["dst"], parse_rule(given["rule"], zone))
    return given | policies


def read_settings(written: Any, channels: Collection[str] | None = None) -> dict[str, Any]:
    """The arguments for ``duly.templates.put``: any part of a schedule; raises Invalid with all problems."""
    if not isinstance(written, Mapping):
        raise Invalid([Problem("settings", f"expected an object with any of {', '.join(SETTINGS)}")])
    problems = [
        Problem(str(field)[:50], f"is no setting of a template; known: {', '.join(SETTINGS)}")
        for field in written
        if field not in SETTINGS
    ]
    read: dict[str, Any] = {}
    known = {field: value for field, value in written.items() if field in SETTINGS}
    try:
        read = read_schedule(known, name="template", channels=channels, partial=True)
    except Invalid as error:
        problems += error.problems
    if problems:
        raise Invalid(problems)
    return {field: value for field, value in read.items() if field != "name"}


def editable(schedule: Schedule) -> dict[str, Any]:
    """The fields of a schedule that people can set, as ``read_schedule`` takes them, with the stored DST policy instead
    of the one in effect."""
    shown = msgspec.json.decode(msgspec.json.encode(SCHEDULE_JSON.write(schedule)))
    stored = {field: value for field, value in shown.items() if field not in READ_ONLY}
    return stored | {"dst": schedule.policies.to_json()["dst"]}


def _left_to_find(given: Mapping[str, Any], channels: Collection[str] | None) -> list[Problem]:
    written = write_json(given.get("payload"), "payload")
    problems = [] if channels is None else list(target_problems(given.get("target"), channels))
    return [*problems, written] if isinstance(written, Problem) else problems


def _unknown(written: Mapping[Any, Any]) -> list[Problem]:
    return [
        Problem(str(field)[:50], f"is unknown; known: {', '.join(TAKEN)}")
        for field in written
        if field not in TAKEN and field not in READ_ONLY
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
    """The DST policy without the values that the rule implies, so that a schedule is unchanged after it was written and
    read back."""
    usual = usual_dst(rule)
    return {field: value for field, value in dst.items() if value != usual[field]}


def _problems(read: Callable[[], Any]) -> list[Problem]:
    try:
        read()
    except Invalid as error:
        return list(error.problems)
    return []
