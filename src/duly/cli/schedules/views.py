"""Output for schedules: a table, one schedule with its next and past events, and a preview."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duly.cli.events.views import WIDE_ENOUGH_FOR_NOTES, acts, beneath, empty_table, fields, in_columns, latest
from duly.cli.output import STYLES as EVENT_STYLES
from duly.cli.output import away, counted, readable, utc, warned
from duly.decide.series.preview import Preview
from duly.records.event import Event, Status
from duly.records.history import Entry
from duly.records.results import Backfilled, ReplannedHead, Resumed
from duly.records.schedule import SCHEDULE_JSON, HaltKind, Passed, Schedule
from duly.rules.policies import DEFAULT, SHADOW
from duly.rules.recurrence import DEFAULT_ZONE
from duly.rules.zones import to_wall

ONE_LINE_EACH = 130
"""The width, in columns, from which on a schedule fits on one line."""

STATES = {
    "on": "green",
    "waits": "cyan",
    "shadow": "magenta",
    "paused": "yellow",
    "ended": "dim",
    "error": "bold red",
}
SOON = timedelta(seconds=1)
"""A change this soon after the creation is a part of it, and not shown."""

UNDECLARED = "not in the code"


# -- in words


def state(schedule: Schedule) -> str:
    if schedule.halt_kind is HaltKind.ERROR:
        return "error"
    if not schedule.enabled:
        return "paused"
    if schedule.halt_kind is HaltKind.ENDED:
        return "ended"
    if schedule.hold_kind is not None:
        return "waits"
    return "shadow" if _mode(schedule) == SHADOW else "on"


def _mode(schedule: Schedule) -> str | None:
    try:
        return schedule.policies.mode
    except Exception:  # the row may have been edited by hand
        return None


def reason(schedule: Schedule) -> str:
    """The reason for the state of a schedule, where the state does not say it."""
    if schedule.halt_kind is HaltKind.ERROR:
        return schedule.halted or ""
    if not schedule.enabled:
        ends = None if schedule.paused_until is None else f"until {utc(schedule.paused_until)} UTC"
        return ": ".join(filter(None, (ends, schedule.pause_reason)))
    return schedule.held or "" if state(schedule) == "waits" else ""


KINDS = ("cron", "every", "rrule", "yearly", "at")
"""The fields that identify the kind of a rule; a yearly rule has a time as well, so "yearly" comes before "at"."""


def rule_in_words(rule: Any) -> str:
    """A rule in short, such as ``cron 0 9 * * MON``."""
    kind = next((kind for kind in KINDS if kind in rule), None) if isinstance(rule, dict) else None
    if kind is None:
        return str(rule)
    if kind == "yearly":
        leap = {"feb28": ", else 02-28", "mar1": ", else 03-01", "skip": ", in leap years"}
        return f"yearly {rule['yearly']} {rule.get('at', '')}{leap.get(rule.get('leap', ''), '')}"
    return f"{'once' if kind == 'at' else kind} {rule[kind]}"


def _rule(schedule: Schedule) -> str:
    try:
        return rule_in_words(schedule.rule)
    except msgspec.DecodeError:
        return schedule.rule_json


def when_next(schedule: Schedule, now: datetime) -> str:
    """The distance of the next event from now; empty if there is no next event on its way."""
    if schedule.next_at is None or not (schedule.enabled or schedule.paused_until):
        return ""
    return away(schedule.next_at - now) if schedule.next_at > now else f"due {away(schedule.next_at - now)}"


def what_is_next(schedule: Schedule, now: datetime) -> str:
    if not schedule.enabled:
        return "paused"
    if schedule.next_at is None:
        if schedule.halt_kind is HaltKind.ENDED:
            return "it has ended: there is no next event"
        return (
            f"error: {schedule.halted}" if schedule.halt_kind is HaltKind.ERROR else schedule.halted or "no next event"
        )
    return f"next {utc(schedule.next_at)} UTC, {when_next(schedule, now)}"


# -- many schedules


def table(schedules: Sequence[Schedule], undeclared: Collection[str], now: datetime, width: int) -> Table:
    """A table of schedules: readable at 80 columns, where each takes two lines, and better at 130 and more.
    *undeclared* has the ids of schedules that no code declares any more."""
    draw = _wide if width >= ONE_LINE_EACH else _narrow
    return draw(schedules, undeclared, now, width)


def _states(schedules: Sequence[Schedule], undeclared: Collection[str]) -> list[Text]:
    written = []
    for schedule in schedules:
        word = state(schedule)
        text = Text(word, STATES[word])
        if schedule.id in undeclared:
            text.append(f", {UNDECLARED}", "yellow")
        written.append(text)
    return written


def _wide(schedules: Sequence[Schedule], undeclared: Collection[str], now: datetime, width: int) -> Table:
    columns: dict[str, Sequence[str | Text]] = {
        "NAME": [readable(one.name) for one in schedules],
        "STATE": _states(schedules, undeclared),
        "RULE": [readable(_rule(one)) for one in schedules],
        "ZONE": [readable(one.timezone) for one in schedules],
        "NEXT (UTC)": ["–" if one.next_at is None else utc(one.next_at) for one in schedules],
        "": [when_next(one, now) for one in schedules],
        "LAST": [_last(one, now) for one in schedules],
        "TENANT": [readable(one.tenant if one.tenant != "default" else "") for one in schedules],
        "WHY": [readable(reason(one)) for one in schedules],
    }
    return in_columns(columns, ("NAME", "RULE", "ZONE", "TENANT", "WHY"), width)


def _narrow(schedules: Sequence[Schedule], undeclared: Collection[str], now: datetime, width: int) -> Table:
    words = _states(schedules, undeclared)
    lasts = [_last(one, now) for one in schedules]
    most = max(len("STATE"), *map(len, words), *map(len, lasts))
    drawn = empty_table()
    drawn.add_column("NAME", width=max(20, width - 19 - most - 6), overflow="fold")
    drawn.add_column("NEXT (UTC)", no_wrap=True, width=19)
    drawn.add_column("STATE", no_wrap=True, width=most)
    for one, word, last in zip(schedules, words, lasts, strict=True):
        tenant = "" if one.tenant == "default" else f"{one.tenant} · "
        drawn.add_row(readable(f"{tenant}{one.name}"), "–" if one.next_at is None else utc(one.next_at), word)
        zone = f" · {one.timezone}" if one.timezone != "UTC" else ""
        drawn.add_row(beneath(f"{_rule(one)}{zone}", "dim"), when_next(one, now), last)
        if why := reason(one):
            drawn.add_row(beneath(why, "red" if state(one) == "error" else ""))
    return drawn


def _last(schedule: Schedule, now: datetime) -> Text:
    """When the last event began, and its status, unless it is COMPLETED."""
    if schedule.last_at is None or schedule.last_status is None:
        return Text("never", "dim")
    return Text(f"{_LAST[schedule.last_status]} {away(schedule.last_at - now)}", EVENT_STYLES[schedule.last_status])


_LAST = {
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.PROCESSING: "running,",
    Status.PENDING: "to be retried,",
    Status.CANCELLED: "cancelled",
    Status.SKIPPED: "skipped",
}
"""How the last event went, before the time that has gone since it began."""


# -- one schedule


class ScheduleContext(NamedTuple):
    """The context of a schedule: its next occurrences, its latest events, and its history."""

    ahead: Sequence[Preview] | str  # or the reason why they cannot be computed
    events: Sequence[Event]
    history: Sequence[Entry]
    undeclared: bool = False


def one_schedule(schedule: Schedule, around: ScheduleContext, now: datetime, width: int) -> RenderableType:
    word = state(schedule)
    heading = Text.assemble((readable(schedule.name), "bold"), "  ", (word, STATES[word]))
    if around.undeclared:
        heading.append(f", {UNDECLARED} any more", "yellow")
    parts: list[RenderableType] = [heading, "", fields(_facts(schedule, now))]
    parts += ["", Text("ahead of it", "bold"), _ahead(schedule, around.ahead, now, width)]
    if around.events:
        parts += ["", Text("its latest events", "bold"), latest(around.events, now, width)]
    parts += ["", Text("history", "bold"), acts(around.history)]
    return Group(*parts)


def _facts(schedule: Schedule, now: datetime) -> Iterator[tuple[str, str]]:
    if why := reason(schedule):
        yield "why", why
    yield "rule", _whole_rule(schedule)
    yield "timezone", schedule.timezone
    yield "type", schedule.type
    yield "tenant", schedule.tenant
    yield "payload", schedule.payload_json
    if schedule.tags:
        yield "tags", ", ".join(schedule.tags)
    if schedule.target_json is not None:
        yield "target", schedule.target_json
    if schedule.next_at is not None:
        yield "next", f"{utc(schedule.next_at)} UTC, {when_next(schedule, now) or 'held while paused'}"
    yield from _pause(schedule, now)
    if schedule.last_at is not None:
        yield "last", f"{utc(schedule.last_at)} UTC, {_last(schedule, now)}"
    yield from _policies(schedule)
    if schedule.origin is not None:
        yield "declared by", schedule.origin
    if schedule.imported_from is not None:
        yield "imported from", f"{schedule.imported_from}, as {schedule.imported_as}"
    if schedule.created is not None:
        yield "created", f"{utc(schedule.created)} UTC"
    if schedule.updated is not None and schedule.created is not None and schedule.updated - schedule.created > SOON:
        yield "changed", f"{utc(schedule.updated)} UTC"


def _pause(schedule: Schedule, now: datetime) -> Iterator[tuple[str, str]]:
    """Since when and until when a schedule is paused, and what happens then."""
    if schedule.enabled:
        return
    if schedule.paused_since is not None:
        yield "paused", f"{utc(schedule.paused_since)} UTC, {away(schedule.paused_since - now)}"
    if schedule.paused_until is not None:
        yield "paused until", f"{utc(schedule.paused_until)} UTC, {away(schedule.paused_until - now)}"
    if schedule.pause_passed is Passed.FIRE or schedule.paused_until is not None:
        fate = "fires by the misfire policy" if schedule.pause_passed is Passed.FIRE else "is skipped"
        yield "what passes", fate


def _whole_rule(schedule: Schedule) -> str:
    try:
        start = schedule.rule.get("start")
    except (msgspec.DecodeError, AttributeError):
        return schedule.rule_json
    counted_from = f", starting {start}" if start else ""
    return f"{_rule(schedule)}{counted_from}"


def _policies(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """The policies that are not the default, and the behaviour at daylight saving."""
    written, usual = SCHEDULE_JSON.write(schedule), DEFAULT.to_json()
    for name, plain in usual.items():
        value = written[name]
        if name == "dst":
            if isinstance(value, dict) and value.get("gap") and schedule.timezone != "UTC":
                yield (
                    "clock changes",
                    f"gap: {GAPS.get(value['gap'])}; overlap: {TWICE.get(value['overlap'])}",
                )
        elif value != plain:
            yield name.replace("_", " "), _policy(value)
    if schedule.retry_json is not None:
        yield "retry", _policy(written["retry"])


GAPS = {"after": "right after the gap", "shift": "later by the length of the gap", "skip": "not at all"}
TWICE = {"first": "the first time", "second": "the second time", "both": "both times"}


def _policy(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _ahead(schedule: Schedule, ahead: Sequence[Preview] | str, now: datetime, width: int) -> RenderableType:
    if isinstance(ahead, str):
        return Text(readable(ahead), "red")
    if not ahead:
        return Text("no further events", "dim")
    return preview_table(ahead, schedule.timezone, now, width)


def preview_table(ahead: Sequence[Preview], timezone: str, now: datetime, width: int) -> Table:
    """A table of occurrences. With notes, a narrow screen has no room for the distance of each one from now."""
    local, noted = timezone != "UTC", any(one.note for one in ahead)
    how_far = not noted or width >= WIDE_ENOUGH_FOR_NOTES
    drawn = empty_table()
    drawn.add_column("UTC", no_wrap=True)
    if local:
        drawn.add_column(readable(timezone), no_wrap=True)
    if how_far:
        drawn.add_column("", no_wrap=True)
    drawn.add_column("NOTE" if noted else "", overflow="fold")
    for one in ahead:
        day = one.local.strftime("%a")
        cells = [utc(one.due), f"{day} {one.local:%Y-%m-%d %H:%M:%S}"] if local else [f"{day} {utc(one.due)}"]
        cells += [away(one.due - now)] if how_far else []
        drawn.add_row(*cells, Text(readable(one.note or ""), "yellow"))
    return drawn


# -- results of acts


def put_line(schedule: Schedule, change: str, now: datetime) -> Text:
    rule = readable(f"{_rule(schedule)} in {schedule.timezone}")
    following = (what_is_next(schedule, now), STATES[state(schedule)])
    name = (readable(schedule.name), "bold")
    return Text.assemble(
        f"{change} ", name, f"  {rule}  ", following, _passed_over(schedule, now), warned(schedule.warnings)
    )


def acted(schedule: Schedule, what: str, now: datetime) -> Text:
    word = state(schedule)
    ending = "" if word == "paused" else f"; {what_is_next(schedule, now)}"
    return Text.assemble((readable(schedule.name), "bold"), f" {readable(what)}{ending}", _passed_over(schedule, now))


def paused_now(before: Schedule, paused: Schedule) -> str:
    """The result of a pause."""
    ends = "it is resumed" if paused.paused_until is None else f"{utc(paused.paused_until)} UTC"
    if before.enabled:
        return f"is paused: no event of it starts until {ends}"
    same = (before.paused_until, before.pause_reason) == (paused.paused_until, paused.pause_reason)
    return "was paused already" if same else f"was paused already, and now is until {ends}"


def _passed_over(schedule: Schedule, now: datetime) -> str:
    """The occurrences that the act has passed over, and how to fire one of them."""
    if (over := schedule.passed_over) is None:
        return ""
    first = ", ".join(utc(at) for at in over.first)
    more = " …" if over.count > len(over.first) else ""
    passed = f"passed over: {counted(over.count, 'occurrence')}, {first}{more} (UTC)"
    when = ", once it is due" if over.first[0] > now else ""
    return f"\n  {passed}\n  to fire the first one{when}: {readable(over.fire_with)}"


def resumed(result: Resumed, now: datetime) -> Text:
    """The result of a resume: whether the occurrences that the pause has passed over are skipped or fired."""
    if not result.passed:
        passed = "is resumed: nothing was missed while it was paused"
    else:
        one = result.passed == 1
        fate = "fires by its misfire policy" if one else "fire by its misfire policy"
        left_out = "was skipped" if one else "were skipped"
        passed = f"is resumed: {counted(result.passed, 'occurrence')} missed while it was paused "
        passed += fate if result.fires else left_out
    return acted(result.schedule, passed, now)


def backfilled(name: str, result: Backfilled, zone: str, dry_run: bool) -> Text:
    """The result of a backfill; of a dry run also the occurrences, in the schedule's time zone as well."""
    made = counted(len(result.occurrences), "event")
    existing = f"; {result.existing:,} existed already, and fire again with a new --label" if result.existing else ""
    said = Text.assemble(
        "would backfill " if dry_run else "backfilled ",
        (readable(name), "bold"),
        f": {made}{'' if dry_run else ' made'}{existing}  label ",
        (readable(result.label), "bold"),
        "  (a dry run: nothing was done)" if dry_run else "",
    )
    for at in result.occurrences if dry_run else ():
        local = "" if zone == DEFAULT_ZONE else f"  {to_wall(at, zone):%a %Y-%m-%d %H:%M:%S} {zone}"
        said.append(f"\n  {utc(at)} UTC{readable(local)}")
    return said


def replanned_table(moved: Sequence[ReplannedHead]) -> Table:
    drawn = empty_table()
    for title in ("SCHEDULE", "ZONE", "OLD (UTC)", "", "NEW (UTC)"):
        drawn.add_column(title, no_wrap=title.endswith("(UTC)"), overflow="fold")
    for one in moved:
        tenant = "" if one.tenant == "default" else f"{one.tenant} · "
        drawn.add_row(readable(f"{tenant}{one.schedule}"), readable(one.timezone), utc(one.old), "→", utc(one.new))
    return drawn
