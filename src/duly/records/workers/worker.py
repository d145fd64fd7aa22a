"""A worker, as its own row tells of it: every worker writes one with each beat."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec

from duly.records.marks import FromZero, LookedUp, told
from duly.records.wire.forms import JsonForm


class WorkerKind(StrEnum):
    WORKER = "worker"  # runs until it is stopped
    TICK = "tick"  # runs one pass at a time: its row stays between two passes


class WorkerState(StrEnum):
    """Never stored: it follows from the row and the current time."""

    RUNNING = "running"
    STALLED = "stalled"  # its process lives, but its loop has not completed a pass for too long
    DRAINING = "draining"  # it was asked to stop, and finishes running events
    STOPPED = "stopped"  # a tick that has ended
    DEAD = "dead"  # it was not seen for two beats


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is at work, or vanished less than a day ago."""

    name: str
    host: str
    pid: FromZero
    version: Annotated[str, told("Version of Duly")]
    kind: WorkerKind
    lanes_json: Annotated[str, msgspec.Meta(description="Lanes that it serves", extra_json_schema={"type": "array"})]
    closed_json: Annotated[
        str,
        msgspec.Meta(
            description="Lanes that it cannot serve at the moment, each with the reason",
            extra_json_schema={"type": "object"},
        ),
    ] = "{}"
    started: datetime
    seen: Annotated[datetime, told("The last beat")]
    last_pass: Annotated[datetime | None, told("When its loop last completed a pass")] = None
    beat: timedelta  # time between two beats
    pass_limit: timedelta  # after this long without a completed pass, its loop counts as stalled
    draining: bool = False
    stopped: datetime | None = None
    state: LookedUp[WorkerState | None] = None

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes that it serves."""
        return tuple(msgspec.json.decode(self.lanes_json))

    @property
    def closed(self) -> dict[str, str]:
        """The lanes that it cannot serve at the moment, because their brokers are down, each with the reason."""
        return dict(msgspec.json.decode(self.closed_json))


class LaneInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A lane, and whether any worker serves it."""

    lane: str
    served: bool
    seen: Annotated[datetime | None, told("When a worker that serves it was last seen; null: none ever was")] = None


WORKER_JSON = JsonForm(WorkerInfo, name="Worker")
LANE_JSON = JsonForm(LaneInfo, name="Lane")
