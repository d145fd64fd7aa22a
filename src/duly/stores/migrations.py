"""Numbered SQL files, applied in order, once, under a lock. Applications keep their own migration tool."""

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from duly.errors import SchemaMismatch

_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def note(self) -> str:
        """Advice for people with an existing database; empty if nothing changes for them."""
        return " ".join(re.findall(r"^-- note: (.*)$", self.sql, re.MULTILINE))


@lru_cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    folder = files("duly.stores") / dialect / "migrations"
    found = [(match, entry) for entry in folder.iterdir() if (match := _NAME.fullmatch(entry.name))]
    return tuple(
        sorted(
            (Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8")) for match, entry in found),
            key=lambda migration: migration.version,
        )
    )


def pending(dialect: str, applied: int) -> tuple[Migration, ...]:
    return tuple(migration for migration in migrations(dialect) if migration.version > applied)


def require_current(dialect: str, applied: int) -> None:
    """Raises SchemaMismatch if a migration is missing. A newer database is accepted: each migration keeps the version
    before it working."""
    if missing := pending(dialect, applied):
        raise SchemaMismatch(
            f"the database is at migration {applied} and this Duly needs {missing[-1].version}: run `duly "
            "migrate`, or use Duly(…, migrate=True)"
        )
