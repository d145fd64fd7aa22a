"""Reads the queries of a dialect: named queries with ``:name`` parameters, ``{name}`` fragments and lists of
columns."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from duly.stores.columns.lists import with_lists

INVARIANTS = "invariants.sql"
FILES = (
    *("queries.sql", "finding.sql", "keys.sql", "users.sql", "targets.sql", "api.sql", "workers.sql"),
    *("forecast.sql", INVARIANTS, "prune.sql", "stats.sql", "slots.sql", "runs.sql"),
)

_HEADER = re.compile(r"^-- (name|fragment): (\w+)( \(read\))?\n", re.MULTILINE)
_COMMENT = re.compile(r"--.*")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Query:
    """One named query, in the parameter styles of the drivers."""

    name: str
    sql: str  # :name
    reads: bool  # whether it only reads, so that it needs no transaction of its own

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_PARAMETER.findall(self.sql)))

    def numbered(self) -> str:
        """The SQL with ``$1`` placeholders, for asyncpg."""
        places = {name: f"${number}" for number, name in enumerate(self.parameters, 1)}
        return _PARAMETER.sub(lambda found: places[found[1]], self.sql)

    def named(self) -> str:
        """The SQL with ``%(name)s`` placeholders, for psycopg and other DB-API drivers."""
        return _PARAMETER.sub(r"%(\1)s", self.sql.replace("%", "%%"))


@lru_cache
def names_in(file: str, dialect: str) -> tuple[str, ...]:
    """The names of the queries of one file, in the order of the file."""
    return tuple(found[2] for found in _HEADER.finditer(_read(file, dialect)) if found[1] == "name")


def _read(file: str, dialect: str) -> str:
    return (files("duly.stores") / dialect / "sql" / file).read_text(encoding="utf-8")


@lru_cache
def load(dialect: str) -> Mapping[str, Query]:
    text = "\n".join(_read(file, dialect) for file in FILES)
    parts = _HEADER.split(text)[1:]
    fragments: dict[str, str] = {}
    queries: dict[str, Query] = {}
    for kind, name, reads, body in zip(parts[0::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
        sql = _COMMENT.sub("", body).strip()
        for fragment, written in fragments.items():
            sql = sql.replace("{" + fragment + "}", written)
        sql = with_lists(sql, dialect)
        if kind == "fragment":
            fragments[name] = sql
        else:
            queries[name] = Query(name, "\n".join(line for line in sql.splitlines() if line.strip()), bool(reads))
    return queries
