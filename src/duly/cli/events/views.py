"""Output for events: a table, and one event with its timeline."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from duly.cli.output import STYLES, away, brief, counted, readable, utc, utc_millis, whole_error
from duly.decide.error_text import first_line
from duly.decide.why import Why
from duly.records.event import TERMINAL, Event, Status
from duly.records.history import Entry

ONE_LINE_EACH = 150
"""The width, in columns, from which on an event fits on one line."""

WIDE_ENOUGH_FOR_NOTES = 110
"""The width, in columns, from which on notes fit beside the times."""

WIDE_ENOUGH_FOR_TIMES = 69
"""The width, in columns, from which on an id, a status and a time fit on one line."""


def table(events: Sequence[Event], now: datetime, width: int) -> Table:
    """A table of events: readable at 80 columns, where each event takes two lines, and better at 150 and more."""
    return _wide(events, now, width) if width >= ONE_LINE_EACH else _narrow(events, now, width)


def _wide(events: Sequence[Event], now: datetime, width: int) -> Table:
    columns: dict[str, Sequence[str | Text]] = {
        "ID": [event.id for event in events],
        "STATUS": [Text(event.status.value, STYLES[event.status]) for event in events],
        "DUE (UTC)": [utc(event.due) for event in events],
        "": [Text(timing(event, now), _urgency(event, now)) for event in events],
        "TRIED": [f"{event.attempts}×" if event.attempts else "" for event in events],
        "TYPE": [readable(event.type) for event in events],
        "SCHEDULE": [readable(event.schedule or "") for event in events],
        "TENANT": [readable(event.tenant if event.tenant != "default" else "") for event in events],
        "KEY": [readable(event.key or "") for event in events],
        "TO": [readable(event.destination or "") for event in events],
        "USER": [event.user_id or "" for event in events],
        "LAST ERROR": [readable(first_line(event.last_error or "")) for event in events],
    }
    return in_columns(columns, ("", "TYPE", "SCHEDULE", "TENANT", "KEY", "TO", "USER", "LAST ERROR"), width)


def in_columns(columns: Mapping[str, Sequence[str | Text]], shrinking: Sequence[str], width: int) -> Table:
    """A table with one line per row. Empty columns are left out, and the *shrinking* ones are shortened if the width is
    too small."""
    columns = {title: cells for title, cells in columns.items() if any(cells)}
    widths = {title: max(len(cell) for cell in (title, *cells)) for title, cells in columns.items()}
    room = width - sum(widths[title] for title in widths if title not in shrinking) - 2 * len(widths)
    widths |= fair({title: widths[title] for title in widths if title in shrinking}, room)
    drawn = empty_table()
    for title in columns:
        drawn.add_column(title, no_wrap=True, width=widths[title], overflow="ellipsis")
    for row in zip(*columns.values(), strict=True):
        drawn.add_row(*row)
    return drawn


def fair(wanted: dict[str, int], room: int) -> dict[str, int]:
    """Widths of columns: a short column gets all that it needs, and the long ones share the rest."""
    given: dict[str, int] = {}
    for title in sorted(wanted, key=wanted.__getitem__):
        given[title] = max(1, min(wanted[title], room // (len(wanted) - len(given))))
        room -= given[title]
    return given


def _narrow(events: Sequence[Event], now: datetime, width: int) -> Table:
    drawn = empty_table()
    drawn.add_column("ID", no_wrap=True, min_width=36, max_width=max(36, width - 35), overflow="ellipsis")
    drawn.add_column("STATUS", no_wrap=True, min_width=10)
    drawn.add_column("DUE (UTC)", no_wrap=True, min_width=19)
    for event in events:
        drawn.add_row(event.id, Text(event.status, STYLES[event.status]), utc(event.due))
        tenant = "" if event.tenant == "default" else f"{event.tenant} · "
        key = f" · {of}" if (of := event.key or event.schedule) else ""
        tried = f"tried {event.attempts}×" if event.attempts else ""
        to = f" → {event.destination}" if event.destination else ""
        when = "held" if event.held and event.status is Status.PENDING else timing(event, now)
        drawn.add_row(Text(readable(f"{tenant}{event.type}{key}{to}"), "dim"), tried, Text(when, _urgency(event, now)))
        if event.user_id is not None:
            drawn.add_row(Text(f"user {event.user_id}", "dim"))
        if when == "held":
            drawn.add_row(beneath(event.held or "", "dim"))
        if event.last_error and event.status is not Status.COMPLETED:
            drawn.add_row(Text(readable(first_line(event.last_error)), "red"))
    return drawn


def empty_table() -> Table:
    return Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))


def timing(event: Event, now: datetime) -> str:
    """The timing of an event in a few words, such as how late it is."""
    if event.status is Status.COMPLETED:
        return "" if event.lateness is None else f"{brief(event.lateness)} late"
    if event.status is Status.PROCESSING:
        if event.ready is not None and event.ready < now:
            return "interrupted"
        return "" if event.claimed is None else f"running {brief(now - event.claimed)}"
    if event.status is Status.PENDING:
        if event.held:
            return f"held: {readable(event.held)}"
        if event.ready is not None and event.ready > now and (event.attempts or event.due <= now):
            return f"{'retry' if event.attempts else 'ready'} in {brief(event.ready - now)}"
        return overdue(event, now) or (away(event.due - now) if event.due > now else "due now")
    return ""


OVERDUE = "bold red"
LATE_FOR_A_REASON = "yellow"

UNREMARKABLE = timedelta(seconds=1)
"""How long after its due time an event may wait for a worker before it counts as overdue."""


def overdue(event: Event, now: datetime) -> str:
    """How long an event has been waiting for a worker; empty if it does not wait, or waits for a known reason."""
    waits = event.status is Status.PENDING and not event.held and (event.ready is None or event.ready <= now)
    return f"overdue {brief(now - event.due)}" if waits and now - event.due >= UNREMARKABLE else ""


def _urgency(event: Event, now: datetime) -> str:
    """The style of an event's timing."""
    if overdue(event, now):
        return OVERDUE
    return LATE_FOR_A_REASON if event.status is Status.PENDING and event.due < now - UNREMARKABLE else ""


# -- as parts of other pages


def latest(events: Sequence[Event], now: datetime, width: int, *, types: bool = False) -> Table:
    """The latest events of a schedule, or of a user, who has several *types* of events."""
    drawn = empty_table()
    drawn.show_header = False
    wide, tight = width >= WIDE_ENOUGH_FOR_NOTES, width < WIDE_ENOUGH_FOR_TIMES
    drawn.add_column(min_width=36, max_width=None if wide else max(36, width - 35), overflow="fold")
    for _ in range(0 if tight else 2):
        drawn.add_column(no_wrap=True)
    for event in events:
        error = first_line(event.last_error or "") if event.status is not Status.COMPLETED else ""
        many = f"stands for {event.stands_for:,}" if event.stands_for > 1 else ""
        type = readable(event.type) if types else ""
        told = " · ".join(part for part in (type, timing(event, now), many, _beside(event), error) if part)
        row: list[RenderableType] = [Text(event.status, STYLES[event.status]), utc(event.due)]
        drawn.add_row(event.id, *([] if tight else row), *([told] if wide else []))
        if tight:
            drawn.add_row(beneath(f"{event.status} {utc(event.due)}", STYLES[event.status]))
        if told and not wide:
            drawn.add_row(beneath(told, "dim"))
    return drawn


def beneath(text: str, style: str) -> Padding:
    return Padding(Text(readable(text), style), (0, 0, 0, 2))


def _beside(event: Event) -> str:
    """How an event outside its schedule's rule was created."""
    return {"trigger": "triggered", "backfill": "backfilled", "replay": "replayed"}.get(
        (event.occurrence or "").partition(":")[0], ""
    )


def fields(facts: Iterable[tuple[str, str | Text]]) -> Table:
    """The facts about one thing: names, and their values beside them."""
    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(style="dim", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in facts:
        drawn.add_row(name, readable(value) if isinstance(value, str) else value)
    return drawn


def acts(history: Sequence[Entry]) -> Table:
    """The acts of people on a schedule, a user or a target."""
    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold")
    for entry in history:
        said = Text(entry.act)
        if entry.worker:
            said.append(f" by {readable(entry.worker)}", "dim")
        if entry.detail:
            said.append(f": {readable(entry.detail)}")
        drawn.add_row(utc_millis(entry.at), said)
    return drawn


# -- one event


def acted(event: Event, word: str, now: datetime) -> Text:
    """A line about an event that was changed."""
    when = f", due {utc(event.due)} UTC, {away(event.due - now)}" if event.status is Status.PENDING else ""
    return Text.assemble(f"{word} ", (event.id, "bold"), f"  {readable(event.type)}  ",
                         (event.status.value, STYLES[event.status]), when)  # fmt: skip


def one_event(event: Event, history: Sequence[Entry], reason: Why, now: datetime) -> RenderableType:
    heading = Text.assemble((event.id, "bold"), "  ", (event.status.value, STYLES[event.status]))
    if late := overdue(event, now):
        heading.append(f"  {late}", OVERDUE)
    why = [] if event.status in TERMINAL else [("why", readable(reason.message))]
    return Group(heading, "", fields([*_facts(event, now), *why]), "", _timeline(event, history, now))


def _facts(event: Event, now: datetime) -> Iterator[tuple[str, str | Text]]:
    yield "type", event.type
    yield "tenant", event.tenant
    if event.key is not None:
        yield "key", event.key
    if event.correlation_id is not None:
        yield "correlation id", event.correlation_id
    if event.schedule is not None:
        yield "schedule", event.schedule
    if event.user is not None:
        yield "user", event.user.id if event.user.key is None else f"{event.user.key} ({event.user.id})"
    if event.series is not None:
        yield "series", f"{event.series}, occurrence {event.occurrence}" + (", its next event" if event.head else "")
    if event.replay_of is not None:
        yield "replay of", f"event {event.replay_of}, with another payload"
    if event.replayed_as is not None:
        yield "replayed as", f"event {event.replayed_as}, with another payload"
    if event.stands_for > 1:
        yield "stands for", counted(event.stands_for, "occurrence")
    yield "lane", event.lane
    if event.target_json is not None:
        yield "target", event.target_json
    if event.destination is not None:
        yield "destination", event.destination
    yield "payload", event.payload_json
    yield "created", f"{utc_millis(event.created)} UTC"
    yield "due", f"{utc_millis(event.due)} UTC, {away(event.due - now)}"
    if event.timezone not in (None, "UTC") and event.local is not None:
        yield "local", f"{event.local:%a %Y-%m-%d %H:%M:%S} in {event.timezone}"
    if event.scheduled not in (None, event.due):
        yield "by its rule", f"{utc_millis(event.scheduled)} UTC"
    if event.expires_at is not None:
        yield "expires", f"{utc_millis(event.expires_at)} UTC, {away(event.expires_at - now)}"
    if event.executed is not None and event.lateness is not None:
        yield "executed", f"{utc_millis(event.executed)} UTC, {brief(event.lateness)} late"
    yield "attempts", f"{event.attempts} of at most {event.retry.max_attempts}"
    if event.interruptions:
        yield "interruptions", str(event.interruptions)
    yield "version", str(event.version)
    if event.held:
        yield "held", event.held
    if event.worker is not None:
        yield "last worker", event.worker
    if event.last_error is not None:
        yield "last error", whole_error(event.last_error)


class TimelineLine(NamedTuple):
    """A line of the timeline."""

    at: datetime
    what: str
    style: str = ""
    who: str | None = None  # the worker or person, and how long it took
    detail: str | None = None
    output: str | None = None  # what a command has written


SHOWN_LINES = 40
"""Lines of a command's output that are shown, at most: the last ones."""

ACTS = {
    "delivered": "green",
    "failed": "red",
    "rejected": "red",
    "interrupted": "yellow",
    "given back": "yellow",
    "cancelled": "dim",
    "discarded": "dim",
    "skipped": "dim",
}


def _timeline(event: Event, history: Sequence[Entry], now: datetime) -> Table:
    moments = [TimelineLine(event.created, "created"), TimelineLine(event.due, "due", "bold")]
    moments += [_moment(entry) for entry in history]
    moments += _still_to_come(event, now)
    moments.sort(key=lambda moment: moment.at)
    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold")
    for moment in moments:
        dim = "dim" if moment.at > now else ""
        said = Text(moment.what, moment.style or dim)
        if moment.who:
            said.append(readable(moment.who), "dim")
        if moment.detail:
            said.append("\n").append_text(whole_error(moment.detail))
        if moment.output:
            said.append_text(_written(moment.output))
        drawn.add_row(Text(utc_millis(moment.at), dim), said)
    return drawn


def _written(output: str) -> Text:
    """The last lines of what a command has written."""
    lines = [readable(line) for line in output.rstrip().splitlines()]
    more = len(lines) - SHOWN_LINES
    heading = [f"({counted(more, 'line')} before these; --json shows them)"] if more > 0 else []
    return Text("".join(f"\n  {line}" for line in [*heading, *lines[-SHOWN_LINES:]]), "dim")


def _moment(entry: Entry) -> TimelineLine:
    style = ACTS.get(entry.act, "")
    took = "" if entry.claimed is None else f" after {brief(entry.at - entry.claimed)}"
    if entry.act == "interrupted":  # written by the worker that finds the event; the one named is the one that vanished
        return TimelineLine(entry.at, entry.act, style, f" in {entry.worker}, noticed{took}", entry.detail)
    what = entry.act if entry.attempt is None else f"attempt {entry.attempt} {entry.act}"
    who = f"{took} by {entry.worker}" if entry.worker else took
    return TimelineLine(entry.at, what, style, who, entry.detail, entry.output)


def _still_to_come(event: Event, now: datetime) -> Iterator[TimelineLine]:
    """The lines of the timeline for the present and the future."""
    if event.status is Status.PROCESSING and event.claimed is not None and event.ready is not None:
        yield TimelineLine(event.claimed, f"attempt {event.attempt} started", "yellow", f" by {event.worker}")
        if event.ready > now:
            yield TimelineLine(event.ready, "its lease ends if it is not renewed")
        else:
            yield TimelineLine(event.ready, "its lease ended: the next worker delivers it again", "yellow")
    elif event.status is Status.PENDING and event.ready is not None and event.ready != event.due:
        yield TimelineLine(event.ready, f"attempt {event.attempt} may start")
