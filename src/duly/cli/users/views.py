"""Output for users: a table, one user with their planned and past events, and the planned events alone."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duly.cli.events.views import acts, empty_table, fields, in_columns, latest, timing
from duly.cli.output import away, readable, utc, warned
from duly.records.event import Event
from duly.records.history import Entry
from duly.records.user import User

ONE_LINE_EACH = 150
"""The width, in columns, from which on a user fits on one line."""

NEXT_WIDTH = 30
"""Columns for the next event, where a user takes two lines."""


LOCAL_WIDTH = len("Thu 2026-12-10 09:00:00")
"""Columns for the local time of a planned event."""

UTC_WIDTH = len("2026-12-10 12:00:00")
"""Columns for its time in UTC."""

WRAP_WIDTH = 12
"""Columns; a longer text beside the times is wrapped."""


def full_name(user: User) -> str:
    return readable(f"{user.first_name} {user.last_name}")


def _local(event: Event) -> str:
    return "–" if event.local is None else f"{event.local:%Y-%m-%d %H:%M:%S}"


# -- many users


def table(users: Sequence[User], heads: Mapping[str, Event], now: datetime, width: int) -> Table:
    """A table of users: readable at 80 columns, where each takes two lines. *heads* has the next event of each user, by
    id."""
    return _wide(users, heads, width) if width >= ONE_LINE_EACH else _narrow(users, heads, now, width)


def _wide(users: Sequence[User], heads: Mapping[str, Event], width: int) -> Table:
    ahead = [heads.get(user.id) for user in users]
    columns: dict[str, Sequence[str | Text]] = {
        "ID": [user.id for user in users],
        "NAME": [full_name(user) for user in users],
        "BORN": [user.date_of_birth.isoformat() for user in users],
        "ZONE": [readable(user.timezone) for user in users],
        "NEXT (LOCAL)": ["–" if head is None else _local(head) for head in ahead],
        "": ["" if head is None else readable(head.type) for head in ahead],
        "TENANT": [readable(user.tenant if user.tenant != "default" else "") for user in users],
        "KEY": [readable(user.key or "") for user in users],
    }
    return in_columns(columns, ("NAME", "ZONE", "", "TENANT", "KEY"), width)


def _narrow(users: Sequence[User], heads: Mapping[str, Event], now: datetime, width: int) -> Table:
    drawn = empty_table()
    drawn.add_column("ID", width=max(36, width - NEXT_WIDTH - 4), overflow="fold")
    drawn.add_column("NEXT (LOCAL)", no_wrap=True, width=NEXT_WIDTH, overflow="ellipsis")
    for user in users:
        head = heads.get(user.id)
        tenant = "" if user.tenant == "default" else f"{readable(user.tenant)} · "
        key = f" · {readable(user.key)}" if user.key else ""
        who = f"{tenant}{full_name(user)}{key} · {user.date_of_birth} · {readable(user.timezone)}"
        drawn.add_row(user.id, "–" if head is None else _local(head))
        drawn.add_row(Text(who, "dim"), "" if head is None else f"{readable(head.type)} {away(head.due - now)}")
    return drawn


# -- one user


class UserContext(NamedTuple):
    """The context of a user: planned events, latest events, and history."""

    ahead: Sequence[Event]
    events: Sequence[Event]
    history: Sequence[Entry]


def one_user(user: User, around: UserContext, now: datetime, width: int) -> RenderableType:
    parts: list[RenderableType] = [Text.assemble((user.id, "bold"), "  ", full_name(user)), "", fields(_facts(user))]
    parts += ["", Text("ahead", "bold"), planned(user, around.ahead, now, width)]
    if around.events:
        parts += ["", Text("latest events", "bold"), latest(around.events, now, width, types=True)]
    parts += ["", Text("history", "bold"), acts(around.history)]
    return Group(*parts)


def _facts(user: User) -> Iterator[tuple[str, str]]:
    if user.key is not None:
        yield "key", user.key
    yield "tenant", user.tenant
    yield "date of birth", user.date_of_birth.isoformat()
    yield "timezone", user.timezone
    if user.anniversary is not None:
        yield "anniversary", user.anniversary.isoformat()
    if user.delivery_time is not None:
        yield "delivery time", user.delivery_time.isoformat()
    if user.leap is not None:
        yield "leap", user.leap
    if user.target_json is not None:
        yield "target", user.target_json
    if user.attributes_json is not None:
        yield "attributes", user.attributes_json
    if user.created is not None:
        yield "created", f"{utc(user.created)} UTC"
    if user.updated not in (None, user.created):
        yield "changed", f"{utc(user.updated)} UTC"


def planned(user: User, heads: Sequence[Event], now: datetime, width: int) -> RenderableType:
    """The next event of each type, by the user's local time; if there is room, also the distance from now and the time
    in UTC."""
    if not heads:
        return Text("no event is planned", "dim")
    types, told = [readable(head.type) for head in heads], [timing(head, now) for head in heads]
    room = width - LOCAL_WIDTH - 2 - min(WRAP_WIDTH, max(map(len, types)))
    room_beside = room - 2 - min(WRAP_WIDTH, max(map(len, told)))
    drawn = empty_table()
    drawn.add_column("PLANNED", overflow="fold")
    drawn.add_column(readable(user.timezone), overflow="fold", min_width=LOCAL_WIDTH)
    if room_beside >= UTC_WIDTH + 2:
        drawn.add_column("UTC", no_wrap=True)
    if room_beside >= 0:
        drawn.add_column("", overflow="fold")
    for head, type, ahead in zip(heads, types, told, strict=True):
        due = [utc(head.due)] if room_beside >= UTC_WIDTH + 2 else []
        drawn.add_row(type, _own(head, user), *due, *([ahead] if room_beside >= 0 else []))
    return drawn


def _own(head: Event, user: User) -> str:
    """The time of an event in the user's zone, or in the zone that the event uses."""
    elsewhere = "" if head.timezone in (None, user.timezone) else f" in {readable(head.timezone)}"
    return "–" if head.local is None else f"{head.local:%a} {_local(head)}{elsewhere}"


def done_to(user: User, word: str, what: str = "") -> Text:
    """A line about a user that was changed."""
    beside = [one for one in user.warnings if one not in user.noted]
    return Text.assemble(f"{word} ", (user.id, "bold"), f"  {full_name(user)}{readable(what)}", warned(beside))
