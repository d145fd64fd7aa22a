"""Writes request bodies: the arguments of the verbs as JSON."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from duly.decide.series.pauses import read_pause
from duly.decide.tags import tags_problems
from duly.decide.targets.rates import read_rate
from duly.errors import Invalid, Problem
from duly.records.event import TIMER_SPANS, NewEvent
from duly.records.wire.schedule_writer import raw, rule_body, written_fields
from duly.rules.recurrence import Rule
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


def instants(given: Mapping[str, datetime | None]) -> dict[str, str | None]:
    """Instants that may be missing, as JSON, by their names."""
    return {name: None if one is None else instant(name, one) for name, one in given.items()}


def moment(path: str, written: Any) -> str:
    """An instant or a local time as text; raises Invalid for another value, like the verbs of Duly."""
    if isinstance(written, str):
        return written
    if isinstance(written, datetime) and written.utcoffset() is None:
        return written.isoformat()
    return instant(path, written)


def timer_body(event: NewEvent) -> dict[str, Any]:
    """The body of a timer that was checked and planned here; the server assigns its id."""
    when: dict[str, Any] = {}
    if event.due is not None:
        when["due_at"] = write_instant(event.due)
    elif event.quiet is None:
        when["after"] = format_duration(event.delay or timedelta())
    told = {
        "key": event.key,
        "target": raw(event.target_json),
        "retry": raw(event.retry_json),
        "correlation_id": event.correlation_id,
        "once": None if event.once or event.quiet is not None else False,
        **{name: format_duration(span) for name in TIMER_SPANS if (span := getattr(event, name)) is not None},
    }
    given = {name: value for name, value in told.items() if value is not None}
    return {**when, "type": event.type, "payload": raw(event.payload_json), **given}


def pause_body(reason: str | None, until: Any, passed: str | None) -> dict[str, Any]:
    """The body of a pause, checked like by the verbs of Duly."""
    asked = read_pause(reason, until, passed)
    ends = write_instant(asked.until) if isinstance(asked.until, datetime) else asked.until
    told = {"reason": reason, "until": format_duration(ends) if isinstance(ends, timedelta) else ends, "passed": passed}
    return {name: value for name, value in told.items() if value is not None}


def listed_tags(tags: Any) -> list[str]:
    """Tags as JSON; raises Invalid for others."""
    if problems := tags_problems(tags):
        raise Invalid(problems)
    return sorted(set(tags))


def preview_body(
    rule: Rule | dict[str, Any], timezone: str | None, policies: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """The body of a preview, with only the policies that affect when a rule fires."""
    problems: list[Problem] = []
    deciding = {name: value for name, value in policies.items() if name in ("dst", "start", "end", "exclude")}
    return written_fields({**rule_body(rule, timezone, deciding, problems), **more}, problems)


def rate_text(rate: float | str | None) -> str | None:
    """A rate as text, in which a number means per second. The text has enough digits for the server to read exactly the
    same rate."""
    if rate is None or isinstance(rate, str):
        return rate
    read_rate(rate)
    written, exact = f"{rate:.6f}", Decimal(str(rate))
    return written if Decimal(written) == exact else f"{exact * 86_400:.6f}/d"
