"""Writes request bodies: the arguments of the verbs as JSON."""

from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from duly.decide.checks import retry_problems, write_json
from duly.decide.retry import DEFAULT, Retry
from duly.decide.targets.rates import read_rate
from duly.errors import Invalid, Problem
from duly.records.event import TIMER_SPANS, NewEvent
from duly.rules.notation import zone_problems
from duly.rules.policies import DependsOn, Misfire
from duly.rules.recurrence import DEFAULT_ZONE, OPEN, Dst, Rule
from duly.values.durations import format_duration
from duly.values.instants import due_problems, write_instant


class AnyChannel(Collection[str]):
    """A collection of channels that contains every name: the server checks which channels exist."""

    def __contains__(self, _: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


ANY_CHANNEL = AnyChannel()


def instant(path: str, written: Any) -> str:
    """An instant as JSON; raises Invalid for another value, like the verbs of Duly."""
    if not isinstance(written, datetime):
        raise Invalid([Problem(path, f"expected a datetime, not {type(written).__name__}")])
    if problems := due_problems(written):
        raise Invalid([problem._replace(path=path) for problem in problems])
    return write_instant(written)


def timer_body(event: NewEvent) -> dict[str, Any]:
    """The body of a timer that was checked and planned here; the server assigns its id."""
    when: dict[str, Any] = {}
    if event.due is not None:
        when["due_at"] = write_instant(event.due)
    elif event.quiet is None:
        when["after"] = format_duration(event.delay or timedelta())
    told = {
        "key": event.key,
        "target": _raw(event.target_json),
        "retry": _raw(event.retry_json),
        "correlation_id": event.correlation_id,
        "once": None if event.once or event.quiet is not None else False,
        **{name: format_duration(span) for name in TIMER_SPANS if (span := getattr(event, name)) is not None},
    }
    given = {name: value for name, value in told.items() if value is not None}
    return {**when, "type": event.type, "payload": _raw(event.payload_json), **given}


def schedule_body(
    rule: Rule | dict[str, Any],
    type: str,
    payload: Any,
    timezone: str | None,
    target: dict[str, Any] | None,
    retry: Retry,
    enabled: bool | None,
    policies: Mapping[str, Any],
) -> dict[str, Any]:
    """The body of a schedule, with the given fields only; the server checks them."""
    problems = list(retry_problems(retry))
    fields: dict[str, Any] = {"type": type, **rule_body(rule, timezone, policies, problems)}
    fields |= {"payload": payload, "target": target, "enabled": enabled}
    if retry != DEFAULT and not problems:
        fields["retry"] = retry.to_json()
    return _written(fields, problems)


def preview_body(
    rule: Rule | dict[str, Any], timezone: str | None, policies: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """The body of a preview, with only the policies that affect when a rule fires."""
    problems: list[Problem] = []
    deciding = {name: value for name, value in policies.items() if name in ("dst", "start", "end", "exclude")}
    return _written({**rule_body(rule, timezone, deciding, problems), **more}, problems)


def rule_body(rule: Any, timezone: str | None, policies: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """The fields for a rule, its zone and the policies; the rule's own settings for clock changes are merged into the
    policies."""
    plain = {name: _plain(value) for name, value in policies.items()}
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


def rate_text(rate: float | str | None) -> str | None:
    """A rate as text, in which a number means per second. The text has enough digits for the server to read exactly the
    same rate."""
    if rate is None or isinstance(rate, str):
        return rate
    read_rate(rate)
    written, exact = f"{rate:.6f}", Decimal(str(rate))
    return written if Decimal(written) == exact else f"{exact * 86_400:.6f}/d"


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


def _written(fields: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    written = {name: write_json(value, name) for name, value in fields.items() if value is not None}
    problems += [one for one in written.values() if isinstance(one, Problem)]
    if problems:
        raise Invalid(problems)
    return {name: _raw(str(one)) for name, one in written.items()}


def _raw(written: str | None) -> msgspec.Raw | None:
    return None if written is None else msgspec.Raw(written.encode())
