"""Output for dead letters: a table of their kinds, and the progress of a replay or discard of many."""

from datetime import datetime, timedelta
from typing import NamedTuple, Self

import msgspec
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from duly.cli.events.views import in_columns
from duly.cli.output import away, brief, counted, note, print_json, readable, screen, utc
from duly.cli.progress import ProgressLine
from duly.records.event import HANDLER
from duly.records.results import DeadLetterKind, DeadLetters, Discarded, Replayed

SHOWN_KINDS = 10
"""Kinds of dead letters that are listed; the others are counted together."""

BAR_WIDTH = 30
"""Columns of the progress bar."""


class BulkPlan(NamedTuple):
    """The replay or discard that the user is about to confirm."""

    verb: str
    participle: str
    there: DeadLetters
    limit: int | None
    gap: timedelta | None

    @property
    def events(self) -> int:
        return self.there.events if self.limit is None else min(self.limit, self.there.events)

    @property
    def lasts(self) -> timedelta:
        """The time from the first replayed event to the last."""
        return timedelta() if self.gap is None else (self.events - 1) * self.gap

    def __str__(self) -> str:
        oldest = f"the {self.events:,} oldest of " if self.events < self.there.events else ""
        pace = "" if self.gap is None else f", one every {brief(self.gap)}, the last {away(self.lasts)}"
        return f"{oldest}{counted(self.there.events, 'dead letter')}{pace}"


def kinds(there: DeadLetters, width: int) -> RenderableType:
    """A table of dead letters by tenant, type and destination, the most frequent first."""
    shown = there.kinds[:SHOWN_KINDS]
    columns = {
        "EVENTS": [f"{kind.events:,}" for kind in shown],
        "TENANT": [readable(kind.tenant if kind.tenant != "default" else "") for kind in shown],
        "TYPE": [readable(kind.type) for kind in shown],
        "DESTINATION": [readable(_destination(kind)) for kind in shown],
    }
    drawn = in_columns(columns, ("TENANT", "TYPE", "DESTINATION"), width)
    others = there.events - sum(kind.events for kind in shown)
    return Group(drawn, Text(f"and {others:,} of other kinds", "dim")) if others else drawn


def _destination(kind: DeadLetterKind) -> str:
    if kind.lane.startswith(f"{HANDLER}:"):
        return HANDLER
    return kind.lane if kind.destination is None else f"{kind.lane} {kind.destination}"


class Stopped(Exception):
    """Raised to end a batch after Ctrl-C or SIGTERM."""


class BulkReport:
    """Reports the progress of a batch, and in the end its result. ``stop`` ends the batch between two transactions."""

    def __init__(self, plan: BulkPlan, *, json: bool) -> None:
        self.done: Replayed | Discarded = Replayed() if plan.verb == "replay" else Discarded()
        self.now: datetime | None = None  # the store's time at the end
        self.interrupted = self._stop = False
        self._plan, self._json, self._line = plan, json, ProgressLine(json=json)

    def __enter__(self) -> Self:
        self._line.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.__exit__()

    def stop(self) -> None:
        self._stop = True

    def progress(self, done: Replayed | Discarded) -> None:
        self.done = done
        pace = done.events / max(self._line.seconds, 0.001)
        said = f"{done.events:,} of {self._plan.events:,} {self._plan.participle}, {pace:,.0f}/s"
        drawn = Table.grid(padding=(0, 1, 0, 0))
        drawn.add_row(ProgressBar(self._plan.events, done.events, width=BAR_WIDTH), Text(said))
        self._line.tell(done.events, said, drawn)
        if self._stop and done.events + done.left_alone < self._plan.events:
            raise Stopped

    def summary(self) -> None:
        done = self.done
        if self._json:
            print_json(msgspec.to_builtins(done) | {"complete": self.now is not None, "dry_run": False})
            return
        took = f"in {brief(timedelta(seconds=self._line.seconds))}"
        last = ""
        if isinstance(done, Replayed) and self._plan.gap and done.until and self.now:
            last = f"; the last is ready at {utc(done.until)} UTC, {away(done.until - self.now)}"
        screen().print(f"{counted(done.events, 'dead letter')} {self._plan.participle} {took}{last}", style="bold")
        if done.left_alone:
            note(f"{counted(done.left_alone, 'other')} not changed: another request was changing them at that moment")
