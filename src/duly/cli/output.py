"""Output of the commands: text and tables for people, JSON for programs. Colour only on a terminal."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from typing import Any
from urllib.parse import urlsplit

import msgspec
from rich.console import Console
from rich.text import Text

from duly.errors import DulyError, Invalid, NotWritable, StoreUnavailable
from duly.records.event import Status

WIDE_ENOUGH_FOR_PIPES = 200
"""Columns of the output where it does not go to a terminal."""


STYLES = {
    Status.PENDING: "cyan",
    Status.PROCESSING: "yellow",
    Status.COMPLETED: "green",
    Status.FAILED: "bold red",
    Status.CANCELLED: "dim",
    Status.SKIPPED: "dim",
}


def screen() -> Console:
    """Standard output. In a pipe, lines are not wrapped at 80 columns, so that they can be searched with grep."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = WIDE_ENOUGH_FOR_PIPES
    return console


def note(text: str) -> None:
    """Prints a remark on standard error, apart from the result."""
    print(readable(text), file=sys.stderr)


def print_json(value: Any) -> None:
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), flush=True)


def tell_error(error: DulyError, *, json: bool) -> None:
    """Prints an error as one line on standard error."""
    message = str(error)
    if isinstance(error, StoreUnavailable) and not isinstance(error, NotWritable):
        message += ": check that the database is running and that --db or DULY_DATABASE_URL is its address"
    if not json:
        print(f"duly: {readable(message)}", file=sys.stderr)
        return
    told: dict[str, Any] = {"type": type(error).__name__, "message": message}
    if isinstance(error, Invalid):
        told["problems"] = [problem._asdict() for problem in error.problems]
    print(msgspec.json.encode({"error": told}).decode(), file=sys.stderr)


def forgive_encoding() -> None:
    """Replaces characters that the terminal cannot encode: an arrow on an ASCII terminal is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def readable(text: str) -> str:
    """Text from elsewhere, such as an error, on one line and without terminal control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def warned(warnings: Sequence[str]) -> str:
    """Warnings about a result that is probably not intended, to be printed below it."""
    return "".join(f"\n  warning: {readable(warning)}" for warning in warnings)


def whole_error(error: str) -> Text:
    """An error: its first line, and below it the rest, such as the response of the other side."""
    fact, _, rest = error.partition("\n")
    said = [(f"\n{readable(line)}", "dim") for line in rest.splitlines() if line.strip()]
    return Text.assemble(readable(fact), *said)


def utc(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def utc_millis(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def brief(span: timedelta) -> str:
    """A duration in its two largest units."""
    seconds = abs(span.total_seconds())
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    for size, unit, part, smaller in _UNITS:
        if seconds >= size:
            count, rest = divmod(round(seconds / part), round(size / part))
            return f"{count}{unit} {rest}{smaller}" if rest else f"{count}{unit}"
    return f"{seconds:.1f} s"


# The seconds from which on a unit is used: a little less than a full one, where the smaller unit would be rounded to
# "60m".
_UNITS = ((86370, "d", 3600, "h"), (3599.5, "h", 60, "m"), (59.95, "m", 1, "s"))


def away(span: timedelta) -> str:
    """The distance of an instant from now."""
    if abs(span) < timedelta(seconds=0.5):
        return "now"
    return f"in {brief(span)}" if span > timedelta() else f"{brief(span)} ago"


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def without_password(url: str) -> str:
    """A database URL without its password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("://")[0] + "://…"
    if parts.password is None:
        return url
    return url.replace(f":{parts.password}@", ":…@", 1)
