"""Writes schedules as JSON for the API: the arguments of ``schedules.put``, some of which are objects of Python."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

import msgspec

from duly.decide.checks import retry_problems, write_json
from duly.decide.retry import DEFAULT
from duly.errors import Invalid, Problem
from duly.rules.notation import zone_problems
from duly.rules.policies import DependsOn, Misfire
from duly.rules.recurrence import DEFAULT_ZONE, OPEN, Dst
from duly.values.durations import format_duration
from duly.values.instants import write_instant


def schedule_body(fields: Mapping[str, Any], policies: Mapping[str, Any], *, partial: bool = False) -> dict[str, Any]:
    """The body of a schedule, with the given fields only: type, rule, timezone, payload, target, retry, enabled and
    template. It still has to be checked. A *partial* one may lack a rule."""
    problems: list[Problem] = []
    fields = dict(fields)
    rule, timezone, retry = fields.pop("rule"), fields.pop("timezone"), fields.pop("retry")
    written = rule_body(rule, timezone, policies, problems, partial=partial)
    if retry is not None:
        found = list(retry_problems(retry))
        problems += found
        if not found and (partial or retry != DEFAULT):
            written["retry"] = retry.to_json()
    return written_fields(fields | written, problems)


def rule_body(
    rule: Any, timezone: str | None, policies: Mapping[str, Any], problems: list[Problem], *, partial: bool = False
) -> dict[str, Any]:
    """The fields for a rule, its zone and the policies; the rule's own settings for clock changes are merged into the
    policies."""
    plain = {name: _plain(value) for name, value in policies.items()}
    if rule is None and partial:
        return {"timezone": timezone, **plain}
    if isinstance(rule, dict):
        return {"rule": _plain(rule), "timezone": timezone, **plain}
    if not hasattr(rule, "placed"):
        example = "a rule such as cron('0 9 * * MON') or every('15m')"
        problems.append(Problem("rule", f"expected {example}, not {type(rule).__name__}"))
        return plain
    if found := zone_problems(timezone):
        problems += found
        return plain
    if timezone and rule.timezone and timezone != rule.timezone:
        told = f"{timezone} is not the zone of the rule, {rule.timezone}: give one of them"
        problems.append(Problem("timezone", told))
    zone = timezone or rule.timezone
    own = {field: value for field, value in getattr(rule, "dst", OPEN)._asdict().items() if value is not None}
    if own and isinstance(plain.get("dst") or {}, dict):
        plain["dst"] = own | (plain.get("dst") or {})
    return {"rule": rule.placed(zone or DEFAULT_ZONE, OPEN).to_json(), "timezone": zone, **plain}


def _plain(value: Any) -> Any:
    """The JSON value of a policy."""
    if isinstance(value, Misfire | DependsOn):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Dst):
        return {name: one for name, one in value._asdict().items() if one is not None}
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else write_instant(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return value


def written_fields(fields: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    written = {name: write_json(value, name) for name, value in fields.items() if value is not None}
    problems += [one for one in written.values() if isinstance(one, Problem)]
    if problems:
        raise Invalid(problems)
    return {name: raw(str(one)) for name, one in written.items()}


def raw(written: str | None) -> msgspec.Raw | None:
    return None if written is None else msgspec.Raw(written.encode())
