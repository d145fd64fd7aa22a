"""One log line for each act: a dotted name, and the facts as fields. Payloads and secrets are never logged."""

import json
import logging
import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from duly.decide.error_text import first_line
from duly.observers.log_handler import LogHandler
from duly.records.event import Event
from duly.records.schedule import HaltKind
from duly.signals import (
    Cancelled,
    ChannelDown,
    ChannelNotServed,
    ChannelUp,
    ClockStepped,
    CommandRejected,
    CommandsTaken,
    CommandStuck,
    Completed,
    DeadLettered,
    DestinationOpened,
    DestinationParked,
    EventsPruned,
    FileCreated,
    GivenBack,
    Halted,
    HandlerAbandoned,
    Interrupted,
    Late,
    Lost,
    Orphaned,
    PassEnded,
    PruningRefused,
    Replanned,
    Retried,
    RollUpRefused,
    Signals,
    Skipped,
    StoreDown,
    StoreUp,
    TypeNotServed,
    WorkerDraining,
    WorkerNotShown,
    WorkerStarted,
    WorkerStopped,
)
from duly.values.instants import write_instant

log = logging.getLogger("duly")

VERY_LATE = timedelta(hours=1)


def observe_with_logs(signals: Signals) -> None:
    """Logs all signals. Completions in time are logged only at DEBUG: a line for each would cost more than the
    event."""
    if log.isEnabledFor(logging.DEBUG):
        signals.observe(_completed, Completed)
    for kind, tell in _TELL.items():
        signals.observe(tell, kind)


def _completed(signal: Completed) -> None:
    _tell(logging.DEBUG, "event.completed", signal.event, late=_seconds(signal.late), attempt=signal.event.attempt)


def _late(signal: Late) -> None:
    level = logging.WARNING if signal.late > VERY_LATE else logging.INFO
    due, late = write_instant(signal.event.due), _seconds(signal.late)
    _tell(level, "event.late", signal.event, due=due, late=late, attempt=signal.event.attempt)


def _pass_ended(signal: PassEnded) -> None:
    """Logs a pass of the worker; at INFO if it recovered events, or if deliveries failed or were retried."""
    _tell(
        logging.INFO if signal.recovery or signal.failed or signal.retried else logging.DEBUG,
        "worker.pass",
        worker=signal.worker,
        processed=signal.processed,
        retried=signal.retried,
        failed=signal.failed,
        late=signal.late,
        average_lateness=_seconds(signal.average_lateness),
        greatest_lateness=_seconds(signal.greatest_lateness),
        recovery=signal.recovery,
        duration=_seconds(signal.duration),
    )


def _draining(signal: WorkerDraining) -> None:
    _tell(
        logging.INFO,
        "worker.draining",
        worker=signal.worker,
        running=sum(signal.types.values()),
        types=", ".join(f"{type} {count}" for type, count in sorted(signal.types.items())),
        oldest=_seconds(signal.oldest),
        left=_seconds(signal.left),
        hint="they may end until then; a second Ctrl-C gives them back at once",
    )


def _clock_stepped(signal: ClockStepped) -> None:
    forward = (
        "leases are renewed, no event counts as interrupted for the length of one lease, and events that "
        "are due by the new time are started"
    )
    back = "timers, schedules and retries wait until they are due by the new time"
    _tell(
        logging.WARNING,
        "clock.stepped",
        by=_seconds(signal.by),
        consequence=forward if signal.by > timedelta() else back,
    )


def _given_back(signal: GivenBack) -> None:
    """Logs a released event; only at DEBUG if the outage itself was logged, because thousands of events may wait for
    one broker."""
    level = logging.DEBUG if signal.told else logging.WARNING if signal.wait else logging.INFO
    _tell(level, "event.given_back", signal.event, wait=_seconds(signal.wait), reason=signal.reason)


def _tell(level: int, act: str, event: Event | None = None, **facts: Any) -> None:
    if event is not None:
        whose = {"schedule": event.schedule} if event.schedule is not None else {}
        whose |= {"user": event.user_id} if event.user_id is not None else {}
        facts = {"event": event.id, "tenant": event.tenant, "type": event.type, **whose, **facts}
    log.log(level, Line(act, facts))


class Line:
    """A log message that any formatter can print as text, and that keeps its facts as fields for `JsonFormat`."""

    def __init__(self, act: str, facts: dict[str, Any]) -> None:
        self.act, self.facts = act, facts

    def __str__(self) -> str:
        return " ".join([self.act, *(f"{name}={_brief(value)}" for name, value in self.facts.items())])


def _seconds(span: timedelta) -> float:
    return round(span.total_seconds(), 6)


_TELL: dict[type, Callable[[Any], None]] = {
    Late: _late,
    Retried: lambda s: _tell(
        logging.WARNING,
        "event.retried",
        s.event,
        attempt=s.event.attempt,
        wait=_seconds(s.wait),
        error=first_line(s.error),
    ),
    DeadLettered: lambda s: _tell(
        logging.ERROR, "event.failed", s.event, attempt=s.event.attempt, error=first_line(s.error)
    ),
    GivenBack: _given_back,
    Interrupted: lambda s: _tell(logging.WARNING, "event.interrupted", s.event, interruptions=s.event.interruptions),
    Lost: lambda s: _tell(logging.WARNING, "event.lost", s.event, version=s.event.version, verdict=s.act),
    Cancelled: lambda s: _tell(logging.INFO, "event.cancelled", s.event, attempt=s.event.attempt),
    Skipped: lambda s: _tell(logging.INFO, "event.skipped", s.event, occurrences=s.event.stands_for, reason=s.reason),
    Orphaned: lambda s: _tell(logging.WARNING, "schedule.orphaned", schedules=list(s.schedules)),
    Replanned: lambda s: _tell(logging.WARNING, "schedule.replanned", events=s.events, zone_data=s.zone_data),
    Halted: lambda s: _tell(
        logging.INFO if s.kind is HaltKind.ENDED else logging.WARNING,
        "schedule.halted",
        schedule=s.name,
        kind=s.kind.value,
        reason=s.reason,
    ),
    HandlerAbandoned: lambda s: _tell(
        logging.ERROR, "handler.abandoned", s.event, deadline=_seconds(s.deadline), threads=s.threads
    ),
    DestinationParked: lambda s: _tell(
        logging.ERROR if s.gone else logging.WARNING,
        "target.disabled" if s.gone else "target.parked",
        tenant=s.tenant,
        target=s.destination,
        reason=first_line(s.reason).partition(": ")[2],
    ),
    DestinationOpened: lambda s: _tell(
        logging.WARNING, "target.opened", tenant=s.tenant, target=s.destination, after=_seconds(s.after)
    ),
    CommandsTaken: lambda s: _tell(logging.DEBUG, "commands.taken", many=s.many, refused=s.refused),
    CommandRejected: lambda s: _tell(logging.WARNING, "command.rejected", place=s.place, reason=first_line(s.reason)),
    CommandStuck: lambda s: _tell(logging.ERROR, "command.stuck", place=s.place, reason=first_line(s.reason)),
    ChannelDown: lambda s: _tell(logging.ERROR, "channel.down", channel=s.channel, reason=s.reason),
    ChannelUp: lambda s: _tell(logging.WARNING, "channel.up", channel=s.channel, after=_seconds(s.after)),
    TypeNotServed: lambda s: _tell(
        logging.WARNING,
        "type.not_served",
        type=s.type,
        consequence="its events wait until a worker runs whose app has a handler for it",
    ),
    ChannelNotServed: lambda s: _tell(logging.WARNING, "channel.not_served", channel=s.channel, advice=s.advice),
    FileCreated: lambda s: _tell(logging.INFO, "store.created", file=s.path),
    StoreDown: lambda s: _tell(
        logging.ERROR, "store.not_writable" if s.readable else "store.unreachable", error=s.error
    ),
    StoreUp: lambda s: _tell(logging.WARNING, "store.back", after=_seconds(s.after)),
    ClockStepped: _clock_stepped,
    PassEnded: _pass_ended,
    WorkerStarted: lambda s: _tell(
        logging.INFO,
        "worker.started",
        worker=s.worker,
        host=socket.gethostname(),
        pid=os.getpid(),
        lanes=list(s.lanes),
    ),
    WorkerNotShown: lambda s: _tell(
        logging.WARNING,
        "worker.not_shown",
        worker=s.worker,
        error=s.error,
        consequence="it works, but nobody sees it in `duly workers`",
    ),
    EventsPruned: lambda s: _tell(
        logging.INFO, "events.pruned", worker=s.worker, events=s.events, seconds=round(s.duration.total_seconds(), 1)
    ),
    PruningRefused: lambda s: _tell(
        logging.WARNING,
        "events.not_pruned",
        worker=s.worker,
        error=s.error,
        consequence="it works, but finished events stay: allow its role to delete them, or run `duly prune`",
    ),
    RollUpRefused: lambda s: _tell(
        logging.WARNING,
        "runs.not_rolled_up",
        worker=s.worker,
        error=s.error,
        consequence="it works, but duly.ended_runs grows: allow its role to change that table and duly.roll_ups",
    ),
    WorkerDraining: _draining,
    WorkerStopped: lambda s: _tell(logging.INFO, "worker.stopped", worker=s.worker, given_back=s.given_back),
}


_encode = json.JSONEncoder(default=str).encode


class TextFormat(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        line = f"{at} {record.levelname.lower():<7} {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormat(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = write_instant(datetime.fromtimestamp(record.created, UTC))
        told = record.msg if isinstance(record.msg, Line) else Line(record.getMessage(), {})
        line = {"at": at, "level": record.levelname.lower(), "act": told.act, **told.facts}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encode(line)


def configure_logging(format: str, level: int = logging.INFO) -> None:
    """Sets up logging for Duly's own commands. As a library, Duly leaves logging to the application."""
    handler = LogHandler()
    handler.setFormatter(JsonFormat() if format == "json" else TextFormat())
    log.handlers[:] = [handler]
    log.setLevel(level)
    log.propagate = False


def _brief(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return json.dumps(text) if any(c.isspace() or c == '"' for c in text) or not text else text
