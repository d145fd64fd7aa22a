"""The templates of the pages, and the addresses of static files, which browsers may keep for ever."""

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import msgspec

STATIC = Path(str(files("duly.dashboard"))) / "static"
DIGEST_LENGTH = 10
"""Characters of a file's hash in its address: another version of the file has another address."""


@cache
def environment() -> jinja2.Environment:
    """The templates. Everything is escaped, and a name that is not there is an error."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("duly.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"json": as_json, "many": many}
    return made


def render(template: str, values: dict[str, Any]) -> str:
    return environment().get_template(template).render(values)


@cache
def static_version(name: str) -> str:
    """The beginning of a static file's hash."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:DIGEST_LENGTH]


def as_json(value: Any) -> str:
    """JSON as people read it, with exact numbers."""
    written = value if isinstance(value, str | bytes) else msgspec.json.encode(value)
    return msgspec.json.format(written, indent=2).decode() if isinstance(written, bytes) else _formatted(written)


def _formatted(written: str) -> str:
    return str(msgspec.json.format(written, indent=2))


def many(number: int, one: str, more: str | None = None) -> str:
    """A number and its noun: ``1 event``, ``2,000 events``."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"
