"""Output for workers and lanes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duly.cli.events.views import OVERDUE, beneath, empty_table, in_columns
from duly.cli.output import away, brief, counted, readable, utc
from duly.decide.workers import LaneLoad, last_tick
from duly.records.workers.worker import LaneInfo, WorkerInfo, WorkerKind, WorkerState

ONE_LINE_EACH = 150
"""The width, in columns, from which on a worker fits on one line."""

STYLES = {
    WorkerState.RUNNING: "green",
    WorkerState.STALLED: "bold red",
    WorkerState.DRAINING: "yellow",
    WorkerState.STOPPED: "dim",
    WorkerState.DEAD: "bold red",
}


def workers_table(workers: Sequence[WorkerInfo], now: datetime, width: int) -> Table:
    return (_wide if width >= ONE_LINE_EACH else _narrow)(workers, now, width)


def _wide(workers: Sequence[WorkerInfo], now: datetime, width: int) -> Table:
    columns: dict[str, Sequence[str | Text]] = {
        "NAME": [readable(one.name) for one in workers],
        "HOST": [readable(one.host) for one in workers],
        "PID": [str(one.pid) for one in workers],
        "STATE": [_state(one) for one in workers],
        "SEEN": [away(one.seen - now) for one in workers],
        "LAST PASS": ["" if one.last_pass is None else away(one.last_pass - now) for one in workers],
        "SINCE (UTC)": [utc(one.started) for one in workers],
        "VERSION": [readable(one.version) for one in workers],
        "LANES": [_lanes(one) for one in workers],
    }
    return in_columns(columns, ("NAME", "HOST", "LANES"), width)


def _narrow(workers: Sequence[WorkerInfo], now: datetime, width: int) -> Table:
    drawn = empty_table()
    drawn.add_column("WORKER", width=max(40, width - 17), overflow="fold")
    drawn.add_column("STATE", no_wrap=True, width=13)
    for one in workers:
        drawn.add_row(Text(readable(one.name), "bold"), _state(one))
        facts = f"seen {away(one.seen - now)} · since {utc(one.started)} · process {one.pid} on {one.host}"
        drawn.add_row(beneath(readable(facts), "dim"))
        drawn.add_row(beneath(_lanes(one), "dim"))
    return drawn


def _state(worker: WorkerInfo) -> Text:
    state = worker.state or WorkerState.RUNNING
    kind = "tick, " if worker.kind is WorkerKind.TICK else ""
    return Text(f"{kind}{state.value}", STYLES[state])


def _lanes(worker: WorkerInfo) -> str:
    closed = worker.closed
    return ", ".join(readable(f"{lane} (down: {closed[lane]})" if lane in closed else lane) for lane in worker.lanes)


def unserved_lines(lanes: Iterable[LaneInfo], now: datetime) -> Iterator[Text]:
    """A line about each lane that nobody serves."""
    for lane in lanes:
        if not lane.served:
            since = (
                "no worker ever did"
                if lane.seen is None
                else f"a worker that does was last seen {away(lane.seen - now)}"
            )
            yield Text.assemble((f"nobody serves {readable(lane.lane)}", OVERDUE), f": {since}")


def load_table(
    workers: Sequence[WorkerInfo],
    loads: Sequence[LaneLoad],
    lanes: Sequence[LaneInfo],
    now: datetime,
    width: int,
    limit: int,
) -> RenderableType:
    """The picture of `duly top`."""
    running = sum(one.state is WorkerState.RUNNING for one in workers)
    title = Text(f"{utc(now)} UTC   {counted(running, 'worker')} running", "bold")
    parts: list[RenderableType] = [title, Text("")]
    parts += [workers_table(workers, now, width), Text("")] if workers else []
    served = {lane.lane: _served(workers, lane, now) for lane in lanes}
    parts.append(_loads(loads, served, now, width, limit))
    return Group(*parts)


def _served(workers: Sequence[WorkerInfo], lane: LaneInfo, now: datetime) -> Text:
    if not lane.served:
        return Text("nobody", OVERDUE)
    ended = last_tick(workers, lane.lane, now)
    return Text("yes" if ended is None else f"tick {away(ended - now)}")


def _loads(loads: Sequence[LaneLoad], served: Mapping[str, Text], now: datetime, width: int, limit: int) -> Table:
    def shown(number: int) -> str:
        return f"{number:,}+" if number >= limit else f"{number:,}"

    late = [load.ready is not None and load.ready < now for load in loads]
    columns: dict[str, Sequence[str | Text]] = {
        "LANE": [readable(load.lane) for load in loads],
        "SERVED": [served.get(load.lane, Text("nobody", OVERDUE)) for load in loads],
        "DUE": [shown(load.due) for load in loads],
        "PENDING": [shown(load.pending) for load in loads],
        "RUNNING": [shown(load.running) for load in loads],
        "INTERRUPTED": [shown(load.interrupted) if load.interrupted else "" for load in loads],
        "OLDEST": [
            f"{brief(now - load.ready)} late"
            if is_late and load.ready
            else away(load.ready - now)
            if load.ready
            else ""
            for load, is_late in zip(loads, late, strict=True)
        ],
    }
    return in_columns(columns, ("LANE",), width)
