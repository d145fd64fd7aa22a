"""Output for targets and destinations: a table, and one of them with the events that wait for it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duly.cli.events.views import acts, beneath, empty_table, fields, in_columns
from duly.cli.output import away, brief, counted, readable, utc
from duly.decide.targets.rates import show_rate
from duly.decide.targets.targets import shown
from duly.records.history import Entry
from duly.records.results import TargetTest
from duly.records.target import DESTINATION_OF_ALL, TARGET_JSON, Known, Target

ONE_LINE_EACH = 130
"""The width, in columns, from which on a target fits on one line."""

STATES = {"on": "green", "parked": "yellow", "disabled": "bold red"}

ALL = "all destinations"

Waiting = Mapping[tuple[str, str], int]
"""The number of waiting events, by tenant and destination."""


# -- in words


def state(known: Known) -> str:
    if known.parked is None:
        return "on"
    return "disabled" if known.probe_at is None else "parked"


def why(known: Known) -> str:
    """The reason why a destination is parked, beside its state."""
    return (known.parked or "").partition(": ")[2]


def limits(known: Known) -> str:
    at_once = f"{known.concurrency:,} at once" if known.concurrency else ""
    return ", ".join(filter(None, (at_once, "" if known.rate is None else show_rate(known.rate))))


def all_limits(known: Known) -> str:
    at_once = f"{known.concurrency:,} at once from each worker" if known.concurrency else ""
    often = "" if known.rate is None else f"{show_rate(known.rate)} from all workers together"
    return ", ".join(filter(None, (at_once, often)))


def named(known: Known) -> str:
    return ALL if known.destination == DESTINATION_OF_ALL else known.destination


def goes_to(target: Target) -> str:
    return f"{target.channel} to {shown(target.url)}"


# -- many targets


class Row(NamedTuple):
    """A destination, with its URL if it is a stored target."""

    known: Known
    goes: str = ""


def row_of(target: Target) -> Row:
    return Row(target.known or Known(target.tenant, target.name), goes_to(target))


def table(rows: Sequence[Row], waiting: Waiting, now: datetime, width: int) -> Table:
    """A table of targets: readable at 80 columns, where each takes two lines or more, and better at 130."""
    return (_wide if width >= ONE_LINE_EACH else _narrow)(rows, waiting, now, width)


def _wide(rows: Sequence[Row], waiting: Waiting, now: datetime, width: int) -> Table:
    all_known = [row.known for row in rows]
    many = [waiting.get((known.tenant, known.destination), 0) for known in all_known]
    columns: dict[str, Sequence[str | Text]] = {
        "TARGET": [readable(named(known)) for known in all_known],
        "STATE": [Text(state(known), STATES[state(known)]) for known in all_known],
        "GOES": [readable(row.goes) for row in rows],
        "LIMITS": [limits(known) for known in all_known],
        "WAITING": [f"{number:,}" if number else "" for number in many],
        "SINCE": [_since(known, now) for known in all_known],
        "NEXT TRY": [_next_try(known, now) for known in all_known],
        "TENANT": [readable(known.tenant if known.tenant != "default" else "") for known in all_known],
        "WHY": [readable(why(known)) for known in all_known],
    }
    return in_columns(columns, ("TARGET", "GOES", "TENANT", "WHY"), width)


def _since(known: Known, now: datetime) -> str:
    return "" if known.parked is None or known.since is None else away(known.since - now)


def _next_try(known: Known, now: datetime) -> str:
    if known.probe_at is None:
        return ""
    return away(known.probe_at - now) if known.probe_at > now else "now"


def _narrow(rows: Sequence[Row], waiting: Waiting, now: datetime, width: int) -> Table:
    drawn = empty_table()
    drawn.add_column("TARGET", width=max(20, width - 12), overflow="fold")
    drawn.add_column("STATE", no_wrap=True, width=8)
    for known, goes in rows:
        word = state(known)
        tenant = "" if known.tenant == "default" else f"{known.tenant} · "
        drawn.add_row(readable(f"{tenant}{named(known)}"), Text(word, STATES[word]))
        if told := " · ".join(filter(None, (goes, limits(known)))):
            drawn.add_row(beneath(told, "dim"))
        if known.parked is not None:
            drawn.add_row(beneath(_parked(known, waiting.get((known.tenant, known.destination), 0), now), ""))
    return drawn


def _parked(known: Known, many: int, now: datetime) -> str:
    since = "" if known.since is None else f"since {brief(now - known.since)}"
    following = f"next try {_next_try(known, now)}" if known.probe_at is not None else ""
    return " · ".join(filter(None, (why(known), since, following, f"{counted(many, 'event')} waiting" if many else "")))


# -- one target


def one_target(target: Target, many: int, history: Sequence[Entry], now: datetime) -> RenderableType:
    known = target.known or Known(target.tenant, target.name)
    heading = _heading(known)
    facts = fields([*_own_facts(target), *_facts(known, many, now), *_times(target)])
    return Group(heading, "", facts, "", Text("history", "bold"), acts(history))


def one_destination(known: Known, many: int, now: datetime) -> RenderableType:
    facts = [("tenant", known.tenant), *_facts(known, many, now)]
    return Group(_heading(known), "", fields(facts))


def _heading(known: Known) -> Text:
    return Text.assemble((readable(named(known)), "bold"), "  ", (state(known), STATES[state(known)]))


def _own_facts(target: Target) -> Iterator[tuple[str, str]]:
    told = TARGET_JSON.write(target)
    for name in ("channel", "tenant", "url", "method", "format", "timeout"):
        if told.get(name) is not None:
            yield name, told[name]
    if (statuses := told.get("retry_statuses")) is not None:
        yield "retries", ", ".join(map(str, statuses)) or "no status"
    if told["headers"]:
        yield "headers", f"{', '.join(told['headers'])} (their values are encrypted)"


def _facts(known: Known, many: int, now: datetime) -> Iterator[tuple[str, str]]:
    yield "limits", all_limits(known) or "none"
    if known.parked is not None:
        yield "why", why(known) or "somebody disabled it"
        if known.since is not None:
            yield "since", f"{utc(known.since)} UTC, {away(known.since - now)}"
        if known.probe_at is None:
            yield "next try", "none, until `duly targets enable`"
        else:
            yield "next try", f"{utc(known.probe_at)} UTC, {_next_try(known, now)}"
    yield "waiting", f"{counted(many, 'event')}" if many or known.parked else "nothing"


def _times(target: Target) -> Iterator[tuple[str, str]]:
    if target.created is not None:
        yield "created", f"{utc(target.created)} UTC"
    if target.updated not in (None, target.created):
        yield "changed", f"{utc(target.updated)} UTC"


# -- results of acts


def done_to(target: Target, word: str) -> Text:
    return Text.assemble(f"{word} ", (readable(target.name), "bold"), f"  {readable(goes_to(target))}")


OUTCOMES = {"delivered": "green", "failed": "yellow", "rejected": "red", "unreachable": "yellow"}


def what_came_back(tested: TargetTest) -> Text:
    """What came back from a test."""
    answer = f", HTTP {tested.status}" if tested.status is not None else ""
    acknowledged = ", acknowledged by the broker" if tested.acknowledged else ""
    said = Text.assemble(
        (tested.outcome, OUTCOMES[tested.outcome]), f"{answer}{acknowledged} in {tested.seconds:.3f} s"
    )
    said.append(f"\nwebhook-id {tested.id}", "dim")
    for name, value in tested.headers.items():
        said.append(f"\n{name}: {readable(value)}", "dim")
    if tested.error is not None:
        said.append(f"\n{readable(tested.error)}")
    if tested.body:
        said.append("".join(f"\n  {readable(line)}" for line in tested.body.splitlines()))
    if tested.parked is not None:
        said.append(f"\nits events wait all the same: it {readable(tested.parked)}", "yellow")
    return said
