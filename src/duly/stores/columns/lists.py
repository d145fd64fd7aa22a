"""The columns of a record that queries select and write. A new field is in all of these lists, unless it is excluded
here.

In a query, ``{event}`` is the list of an event's columns, and ``{e.event}`` the same list for the table with the alias
``e``. For a batch such as ``put``, ``{put rows}`` is the table ``given`` of its parameters, ``{put columns}`` lists the
columns that are inserted unchanged, and ``{put from excluded}`` the assignments of an update.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duly.records.api_key import ApiKey
from duly.records.calendar.type_settings import TypeSettings
from duly.records.columns import Column, ColumnKind, ColumnList, columns_of, only, without
from duly.records.event import Event, NewEvent, Status
from duly.records.history import Entry, FiredKey
from duly.records.schedule import Schedule
from duly.records.target import Known, Target
from duly.records.template import Template
from duly.records.user import User
from duly.records.workers.worker import WorkerInfo
from duly.stores.columns.dialects import DIALECTS

OF_THE_CLAIM = ("ready", "claimed", "worker")
"""Fields with the same value for all events that are claimed together, so a claim returns them once."""

OF_ALL_CLAIMED: Mapping[str, Any] = {
    "status": Status.PROCESSING,
    "interruptions": 0,
    "held": None,
    "hold_kind": None,
    "held_for": None,
    "executed": None,
    "stop_requested": None,
    "rule_json": None,  # the rule of a user's head; a claimed event is no longer a head
    "quiet": None,  # a claimed event is no longer put off
    "max_wait": None,
    "first_asked": None,
    "replayed_as": None,  # only events that have ended are replayed with another payload
}
"""Fields with the same value for every claimed event, or of no use to its handler, so no claim returns them."""

CLAIMED = without(columns_of(Event), *OF_THE_CLAIM, *OF_ALL_CLAIMED)


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows that one query takes."""

    given: ColumnList
    computed: tuple[str, ...] = ()  # fields from which the query itself computes columns
    kept: tuple[str, ...] = ()  # fields that an existing row keeps

    @property
    def inserted(self) -> ColumnList:
        return without(self.given, *self.computed)

    @property
    def updated(self) -> ColumnList:
        return without(self.inserted, *self.kept)


OF_SUCCESSORS = ("next_state", "next_occurrence", "next_scheduled", "next_due", "next_data", "ordinary_until")
"""Fields in which a head carries its successor."""

OF_SERIES = (
    *OF_SUCCESSORS,
    "series",
    "occurrence",
    "head",
    "scheduled",
    "timezone",
    "zone_data",
    "held",
    "hold_kind",
    "gated",
    "rule_json",
    "owner",
)
"""Fields that a timer does not have."""

OF_TIMERS = ("delay", "key", "asked", "once", "quiet", "max_wait")
"""Fields that an event of a series does not have."""

OF_KEYS = ("asked", "once", "quiet", "max_wait")
"""Fields that an event without a key does not have."""

PUT_AGAIN = Batch(without(columns_of(NewEvent), *OF_SERIES), computed=("due", "delay", "once"))
PUT = Batch(without(PUT_AGAIN.given, "once"), ("due", "delay"), kept=("id", "tenant", "key", "asked"))
ADD = Batch(without(PUT_AGAIN.given, *OF_KEYS), PUT.computed)
PLANT = Batch(without(columns_of(NewEvent), *OF_TIMERS), computed=("due", "scheduled"))
SUCCEED = Batch(without(PLANT.inserted, "id", "occurrence", "head", "held", "hold_kind", "gated", *OF_SUCCESSORS))
"""The columns that a successor has from the head before it."""

CARRY = Batch(only(columns_of(NewEvent), "id", "due", "owner", *OF_SUCCESSORS), kept=("id", "due"))
REPLAN = Batch(
    (
        *only(columns_of(NewEvent), "id", "due", "occurrence", "scheduled", "owner", *OF_SUCCESSORS),
        Column("detail", "detail", ColumnKind.TEXT),
    )
)
RESHAPE = Batch(
    (
        *without(PLANT.given, "tenant", "series", "head", "gated", "correlation_id"),
        Column("act", "act", ColumnKind.TEXT),
        Column("detail", "detail", ColumnKind.TEXT),
    ),
    computed=("act", "detail"),
    kept=("id",),
)
USERS = Batch(without(columns_of(User), "created", "created_by", "updated"), kept=("id", "tenant"))
PUT_TYPE_SETTINGS = Batch(without(columns_of(TypeSettings), "created", "updated"), kept=("tenant", "type"))
PUT_SCHEDULE = Batch(
    without(columns_of(Schedule), "created", "updated", "imported_from", "imported_as"), kept=("id", "tenant", "name")
)
PUT_TEMPLATE = Batch(without(columns_of(Template), "created", "updated"), kept=("tenant", "name"))
PUT_TARGET = Batch(without(columns_of(Target), "created", "updated"), kept=("id", "tenant", "name"))
ADD_KEY = Batch((*without(columns_of(ApiKey), "created"), Column("hash", "hash", ColumnKind.TEXT)))
BEAT = Batch(without(columns_of(WorkerInfo), "started", "seen", "last_pass", "stopped"), kept=("name",))

BATCHES = {
    "put": PUT,
    "put_again": PUT_AGAIN,
    "add": ADD,
    "plant": PLANT,
    "reshape": RESHAPE,
    "succeed": SUCCEED,
    "carry": CARRY,
    "replan": REPLAN,
    "users": USERS,
    "put_type_settings": PUT_TYPE_SETTINGS,
    "put_schedule": PUT_SCHEDULE,
    "put_template": PUT_TEMPLATE,
    "put_target": PUT_TARGET,
    "add_key": ADD_KEY,
    "beat": BEAT,
}

LISTS = {
    "event": columns_of(Event),
    "claimed": CLAIMED,
    # The fields that make a timer a different one. Its lane and destination follow from its type and target.
    "moved": without(PUT.updated, "lane", "destination", "via"),
    "fired_key": columns_of(FiredKey),
    "entry": columns_of(Entry),
    "schedule": columns_of(Schedule),
    "template": columns_of(Template),
    "user": columns_of(User),
    "type_settings": columns_of(TypeSettings),
    "target": columns_of(Target),
    # Tenant and destination are selected from the parameters or the target: there may be no row of the destination.
    "known": without(columns_of(Known), "tenant", "destination"),
    "api_key": columns_of(ApiKey),
    "worker": columns_of(WorkerInfo),
}

_LIST = re.compile(r"\{(?:(\w+)\.)?(\w+)\}")
_BATCH = re.compile(r"\{(\w+) (?:(rows|columns)|from (\w+))\}")


def with_lists(query: str, dialect: str) -> str:
    """The query with its lists of columns expanded."""
    sql = DIALECTS[dialect]

    def write_list(found: re.Match[str]) -> str:
        columns = LISTS.get(found[2])
        return found[0] if columns is None else sql.select(columns, found[1] or "")

    def write_batch(found: re.Match[str]) -> str:
        batch = BATCHES[found[1]]
        if found[2] == "rows":
            return sql.rows(batch.given)
        if found[2] == "columns":
            return ", ".join(column.name for column in batch.inserted)
        return ", ".join(f"{column.name} = {found[3]}.{column.name}" for column in batch.updated)

    return _BATCH.sub(write_batch, _LIST.sub(write_list, query))
