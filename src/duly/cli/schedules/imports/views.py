"""Output for imports of schedules: what becomes of each entry, and what is gone from the source."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from rich.table import Table
from rich.text import Text

from duly.cli.events.views import empty_table
from duly.cli.output import counted, readable, utc
from duly.cli.schedules.imports.apply import RENAMED, Imported, ImportResult
from duly.cli.schedules.views import ONE_LINE_EACH, rule_in_words, when_next
from duly.records.schedule import SCHEDULE_JSON, Schedule
from duly.rules.recurrence import DEFAULT_ZONE

LEAST_OF_A_COMMAND = 20
"""Columns; with less room, commands are not shown."""

COLOURS = {"created": "green", "changed": "green", RENAMED: "green", "deleted": "red", "gone": "yellow"}
"""The styles of changes; an unchanged schedule has none."""

DRY = " (a dry run: nothing was done)"


class ImportWords(NamedTuple):
    """The words for one kind of source."""

    place: str  # the title of what the source calls an entry, such as LINE
    content: str  # the title of the last column, such as COMMAND
    source: str  # such as "the file"


class Row(NamedTuple):
    place: str
    change: str
    schedule: Schedule
    content: str


def rows(result: ImportResult, content: Mapping[str, str]) -> list[Row]:
    """The rows of the table: the entries with their *content* by place, then what is gone."""
    found = [Row(one.entry.place, one.change, one.schedule, content.get(one.entry.place, "")) for one in result.done]
    for one in result.gone:
        found.append(Row("–", "deleted" if result.pruned and one.name not in result.kept else "gone", one, ""))
    return found


def table(found: Sequence[Row], words: ImportWords, now: datetime, width: int) -> Table:
    columns = {
        words.place: [one.place for one in found],
        "": [one.change for one in found],
        "NAME": [readable(one.schedule.name) for one in found],
        "RULE": [readable(_rule(one.schedule)) for one in found],
        "NEXT (UTC)": ["–" if one.schedule.next_at is None else utc(one.schedule.next_at) for one in found],
    }
    wide = width >= ONE_LINE_EACH
    if wide:
        columns |= {" ": [_when(one, now) for one in found]}
    taken = sum(max(len(cell) for cell in (title, *cells)) + 2 for title, cells in columns.items())
    if wide and width - taken >= LEAST_OF_A_COMMAND:
        columns |= {words.content: [readable(one.content) for one in found]}
    drawn = empty_table()
    for title in columns:
        if title == words.content:
            drawn.add_column(title, no_wrap=True, overflow="ellipsis", max_width=width - taken)
        else:
            drawn.add_column(title, no_wrap=title not in ("NAME", "RULE"), overflow="fold")
    for row in zip(*columns.values(), strict=True):
        drawn.add_row(*(Text(cell, COLOURS.get(cell, "")) for cell in row))
    return drawn


def _rule(schedule: Schedule) -> str:
    zone = "" if schedule.timezone == DEFAULT_ZONE else f" in {schedule.timezone}"
    return f"{rule_in_words(schedule.rule)}{zone}"


def _when(row: Row, now: datetime) -> str:
    return "" if row.change in ("gone", "deleted") else when_next(row.schedule, now) or "paused"


def changes(done: Sequence[Imported], words: ImportWords) -> Iterator[Text]:
    """What has changed of which schedule, old → new."""
    for one in done:
        before = one.entry.keeps
        if before is None or one.change == "unchanged":
            continue
        yield Text.assemble(f"{words.place.lower()} {one.entry.place}, ", (readable(one.schedule.name), "bold"))
        for field, old, new in one.differences:
            yield Text(f"  {readable(field)}: {_value(old)} → {_value(new)}")


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return readable(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def summary(result: ImportResult, dry_run: bool) -> str:
    many = Counter(one.change for one in result.done)
    many["deleted"] = len(result.gone) - len(result.kept) if result.pruned else 0
    told = [f"{many[word]:,} {word}" for word in ("created", RENAMED, "changed", "unchanged", "deleted") if many[word]]
    return f"{', '.join(told)}{DRY if dry_run else ''}" if told else "nothing to import"


def of_the_gone(result: ImportResult, words: ImportWords) -> Iterator[str]:
    """Remarks on the schedules that are not in the source any more, and were not deleted."""
    for name, reason in result.kept.items():
        yield f"{name} is not in {words.source} any more, but {reason}"
    if result.gone and not result.pruned:
        one = len(result.gone) == 1
        names = ", ".join(schedule.name for schedule in result.gone)
        yield (
            f"{counted(len(result.gone), 'schedule')} {'is' if one else 'are'} not in {words.source} any more, and "
            f"{'goes' if one else 'go'} on: {names}; add --prune to delete {'it' if one else 'them'}"
        )


def as_json(result: ImportResult, place: str) -> dict[str, Any]:
    """The result for programs; *place* is the field for what the source calls an entry."""
    return {
        "schedules": [
            {
                place: int(one.entry.place) if one.entry.place.isdigit() else one.entry.place,
                "change": one.change,
                "differences": [difference._asdict() for difference in one.differences],
                **SCHEDULE_JSON.write(one.schedule),
            }
            for one in result.done
        ],
        "gone": [
            {
                "name": one.name,
                "deleted": result.pruned and one.name not in result.kept,
                "reason": result.kept.get(one.name),
            }
            for one in result.gone
        ],
    }
