"""The seams: small Protocols between what acts and what it acts upon. Begin with store."""

from duly.ports.channels import (
    Channel,
    Command,
    Commands,
    Directory,
    Reachable,
    Route,
    SlowToStart,
    TransactionalChannel,
)
from duly.ports.dead_letters import DeadLetters, DeadLetterStatements, Kind, Letter
from duly.ports.requests import KeyStatements, Remembered, RequestStatements
from duly.ports.schedules import Fired, Heads, Moved, Reserved, ScheduleStatements
from duly.ports.store import (
    EXAMINED,
    NOT_YET,
    NOTHING_SEEN,
    Added,
    Clock,
    Horizon,
    Looked,
    Looking,
    Page,
    Seen,
    Statements,
    Store,
    Transaction,
    Waker,
)
from duly.ports.targets import Allowed, TargetStatements
from duly.ports.users import UserStatements

__all__ = [
    "EXAMINED",
    "NOTHING_SEEN",
    "NOT_YET",
    "Added",
    "Allowed",
    "Channel",
    "Clock",
    "Command",
    "Commands",
    "DeadLetterStatements",
    "DeadLetters",
    "Directory",
    "Fired",
    "Heads",
    "Horizon",
    "KeyStatements",
    "Kind",
    "Letter",
    "Looked",
    "Looking",
    "Moved",
    "Page",
    "Reachable",
    "Remembered",
    "RequestStatements",
    "Reserved",
    "Route",
    "ScheduleStatements",
    "Seen",
    "SlowToStart",
    "Statements",
    "Store",
    "TargetStatements",
    "Transaction",
    "TransactionalChannel",
    "UserStatements",
    "Waker",
]
