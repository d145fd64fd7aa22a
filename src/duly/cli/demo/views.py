"""Output of the demo: a live view on a terminal, lines elsewhere."""

import os
import shlex
import shutil
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from duly.cli.output import STYLES, brief, counted, readable, screen, without_password
from duly.decide.error_text import first_line
from duly.records.event import Event, Status
from duly.signals import Completed, DeadLettered, GivenBack, Interrupted, Retried, StoreDown, StoreUp
from duly.values.instants import write_instant

if TYPE_CHECKING:
    from duly.cli.demo.receiver import Arrival

TENANT = "demo"
"""The tenant of all that the demo shows."""

UPCOMING_ROWS = 6
"""Rows for upcoming events; fired events get the rest of the terminal."""


class Told(NamedTuple):
    """One line about a thing that happened."""

    at: datetime
    act: str
    style: str
    event: Event | None
    text: str
    arrival: "Arrival | None" = None

    @property
    def id(self) -> str | None:
        """The id of the event that the line is about."""
        about = self.event or self.arrival
        return None if about is None else about.id

    @property
    def type(self) -> str:
        about = self.event or self.arrival
        return "" if about is None else about.type


def tell(signal: Any) -> Told | None:
    now = datetime.now(UTC)
    match signal:
        case Completed(event):
            executed = event.due + signal.late
            return Told(executed, "fired", "green", event, _fired(event, executed))
        case Retried(event, error, wait):
            said = f"try {event.attempt}, again in {brief(wait)}: {first_line(error)}"
            return Told(now, "failed", "red", event, said)
        case DeadLettered(event, error):
            return Told(now, "gave up", "bold red", event, first_line(error))
        case Interrupted(event):
            return Told(now, "found", "yellow", event, "interrupted by a crash: delivered again, on its own")
        case GivenBack(event=event, reason=reason):
            return Told(now, "put back", "yellow", event, reason)
        case StoreDown(error):
            return Told(now, "outage", "bold red", None, error)
        case StoreUp(after):
            return Told(now, "back", "green", None, f"the database is back after {brief(after)}")
    return None


def _fired(event: Event, executed: datetime) -> str:
    claimed = event.claimed or executed
    said = f"{_what(event)}, {brief(claimed - event.due)} late"
    if executed - claimed > timedelta(milliseconds=500):
        said += f", took {brief(executed - claimed)}"
    if event.attempt > 1:
        said += f", at try {event.attempt}"
    if event.stands_for > 1:
        said += f"; stands for {event.stands_for} occurrences that were missed while nothing was running"
    return said


def _what(event: Event) -> str:
    payload = event.payload
    if payload is None:
        return event.key or ""
    return str(payload["message"] if isinstance(payload, dict) else payload)


def _program() -> str:
    """How this program is called in another terminal: by its path, where the environment is not activated."""
    return "duly" if shutil.which("duly") else f"{shlex.quote(sys.executable)} -m duly"


class View:
    """The base of the demo's views."""

    def __init__(self, url: str, console: Console | None = None) -> None:
        self._url = url
        self._console = console or screen()
        self._counts: Counter[Status] = Counter()
        self._fired = self._retried = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: there is nothing to clean up."""

    def welcome(
        self, counts: Mapping[Status, int], overdue: int, receiver: str | None, broker: str | None, api: str | None
    ) -> None:
        """Shows the events that an earlier run left, and the addresses of receiver, broker and API."""
        self._counts.update(counts)
        self.say(self._greeting(overdue))
        if receiver is not None:
            self.say(f"Orders go as signed webhooks to a receiver on {receiver}")
        if broker is not None:
            self.say(f"Service calls are timers over NATS JetStream, on {broker}")
        if api is not None:
            self.say(f"The dashboard is on {api}, and the HTTP API beside it: see {api}/docs")
        for line in self._invitations():
            self.say(line)

    def hear(self, signal: Any) -> None:
        told = tell(signal)
        if told is None:
            return
        match signal:
            case Completed():
                self._fired += 1
                self._counts[Status.COMPLETED] += 1
            case Retried():
                self._retried += 1
            case DeadLettered():
                self._counts[Status.FAILED] += 1
        self.show(told)

    def receive(self, arrival: "Arrival") -> None:
        """Shows a webhook that arrived at the receiver."""
        self.show(Told(datetime.now(UTC), "got", "magenta", None, arrival.text, arrival))

    def farewell(self, waiting: int) -> None:
        self.say(
            f"{self._fired} fired, {self._retried} tries failed and were repeated, {waiting} wait for the next start."
        )
        self.say(f"See the events: {_program()} events list --db {shlex.quote(without_password(self._url))}")

    def look(self, unfinished: Sequence[Event], now: datetime) -> None:
        """Takes the waiting and running events, and the store's current time."""

    def refresh(self) -> None:
        """Draws again, in a view that redraws."""

    def say(self, line: str) -> None:
        raise NotImplementedError

    def show(self, told: Told) -> None:
        raise NotImplementedError

    def remark(self, event: Event, remark: str) -> None:
        """Shows a handler's remark about its event."""
        raise NotImplementedError

    def _greeting(self, overdue: int) -> str:
        pending, interrupted = self._counts[Status.PENDING], self._counts[Status.PROCESSING]
        if not self._counts.total():
            return f"Starting with a new database: {without_password(self._url)}"
        said = f"From an earlier run: {counted(self._counts[Status.COMPLETED], 'event')} done, {pending} waiting"
        if overdue:
            said += f" ({overdue} overdue)"
        if interrupted:
            said += f", {interrupted} interrupted by a crash: delivered again when the lease ends"
        return said

    def _invitations(self) -> list[str]:
        database = shlex.quote(without_password(self._url))
        return [
            f"Stop it with Ctrl-C or kill -9 {os.getpid()} and start it again: nothing is lost.",
            "In another terminal, in this folder, add a timer of your own:",
            f"""  {_program()} at +3s --type tea.ready --payload '"chamomile"' --tenant {TENANT} --db {database}""",
        ]


class Lines(View):
    """A line for each thing that happens, for pipes and logs."""

    def __init__(self, url: str, *, json: bool) -> None:
        super().__init__(url)
        self._json = json
        self._remarks: dict[str, str] = {}  # by event id; each is shown with its event's line

    def say(self, line: str) -> None:
        if self._json:
            self._print_json({"at": write_instant(datetime.now(UTC)), "act": "said", "text": line})
        else:
            self._console.print(line, soft_wrap=True)

    def remark(self, event: Event, remark: str) -> None:
        self._remarks[event.id] = remark

    def show(self, told: Told) -> None:
        if told.event is not None and told.id in self._remarks:
            told = told._replace(text=f"{told.text}: {self._remarks.pop(told.event.id)}")
        if self._json:
            about = {} if told.id is None else {"event": told.id, "type": told.type}
            self._print_json({"at": write_instant(told.at), "act": told.act, **about, "text": told.text})
        else:
            self._console.print(_line(told), soft_wrap=True)

    def _print_json(self, line: dict[str, Any]) -> None:
        print(msgspec.json.encode(line).decode(), flush=True)


class Screen(View):
    """Countdowns and the last firings, redrawn ten times a second."""

    def __init__(self, url: str, console: Console | None = None) -> None:
        super().__init__(url, console)
        self._told: deque[Told] = deque(maxlen=100)
        self._unfinished: Sequence[Event] = ()
        self._ahead = timedelta()  # how far the store's clock is ahead of ours
        self._began = time.monotonic()
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        self._console.show_cursor(True)  # kill -9 would leave the terminal without a cursor
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()
        self._live.stop()

    def say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    def remark(self, event: Event, remark: str) -> None:
        self.say(f"{_what(event)}: {remark}")

    def show(self, told: Told) -> None:
        self._told.append(told)

    def look(self, unfinished: Sequence[Event], now: datetime) -> None:
        self._unfinished, self._ahead = unfinished, now - datetime.now(UTC)
        self._counts[Status.PENDING] = sum(event.status is Status.PENDING for event in unfinished)
        self._counts[Status.PROCESSING] = len(unfinished) - self._counts[Status.PENDING]

    def refresh(self) -> None:
        self._live.update(self.drawn(), refresh=True)

    def drawn(self) -> RenderableType:
        rows = max(3, min(12, self._console.height - UPCOMING_ROWS - 9))
        return Group("", self._coming_up(), "", self._just_fired(rows), "", self._footer())

    def _coming_up(self) -> Table:
        now = datetime.now(UTC) + self._ahead
        drawn = _grid("COMING UP")
        for event in sorted(self._unfinished, key=_soonest)[:UPCOMING_ROWS]:
            drawn.add_row(*_waiting(event, now))
        return _filled(drawn, UPCOMING_ROWS)

    def _just_fired(self, rows: int) -> Table:
        drawn = _grid("JUST NOW")
        for told in list(self._told)[-rows:][::-1]:
            said = Text.assemble((f"{told.act:<6}", told.style), "  ", readable(told.text))
            drawn.add_row(f"{told.at:%H:%M:%S}", readable(told.type), said)
        return _filled(drawn, rows)

    def _footer(self) -> Text:
        words = [
            (f"{self._counts[status]} {status.lower()}", STYLES[status])
            for status in (Status.COMPLETED, Status.PENDING, Status.PROCESSING, Status.FAILED)
        ]
        ran = brief(timedelta(seconds=time.monotonic() - self._began))
        return Text.assemble(*(part for word in words for part in (word, " · ")), (f"pid {os.getpid()}, {ran}", "dim"))


def _grid(title: str) -> Table:
    drawn = Table.grid(padding=(0, 2, 0, 0), expand=True)
    drawn.add_column(width=9, no_wrap=True)
    drawn.add_column(width=14, no_wrap=True)
    drawn.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    drawn.add_row(Text(title, "bold"), "", "")
    return drawn


def _filled(drawn: Table, rows: int) -> Table:
    """The table, padded to a constant height, so that the lines below do not jump."""
    for _ in range(rows + 1 - drawn.row_count):
        drawn.add_row("", "", "")
    return drawn


def _soonest(event: Event) -> tuple[bool, datetime]:
    return event.status is not Status.PROCESSING, event.ready or event.due


def _waiting(event: Event, now: datetime) -> tuple[Text, str, Text]:
    what = Text(readable(_what(event)))
    if event.destination is not None:
        what.append(f" → {readable(event.destination)}", "dim")
    if event.status is Status.PROCESSING:
        gone = event.ready is not None and event.ready < now
        since = "" if event.claimed is None else f" for {brief(now - event.claimed)}"
        what.append("  interrupted by a crash" if gone else f"  running{since}", "yellow")
        return Text("…" if gone else "now", "yellow"), event.type, what
    if event.attempts:
        error = readable(first_line(event.last_error or ""))
        what.append(f"  try {event.attempt} of {event.retry.max_attempts}, after {error}", "red")
    wait = (event.ready or event.due) - now
    left = brief(wait) if wait > timedelta(hours=1) else f"{max(0.0, wait.total_seconds()):.1f} s"
    return Text(left.rjust(7), "cyan"), event.type, what


def _line(told: Told) -> Text:
    at, type = f"{told.at:%H:%M:%S.%f}"[:-3], readable(told.type)
    return Text.assemble(f"{at}  ", (f"{told.act:<8}", told.style), f"  {type:<14}  {readable(told.text)}")
