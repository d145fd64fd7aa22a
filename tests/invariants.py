"""After each test: do the rows that it leaves contradict each other?

The queries are those of ``store.invariants()``. They are asked without a store, for by then all of them are closed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw
import psycopg
import pytest

from duly.ports import MOST_VIOLATIONS, NEWEST_EXAMINED, Violation
from duly.stores.migrations import migrations
from duly.stores.queries import INVARIANTS, load, names_in
from duly.stores.statements.invariants import COUNTING

BROKEN_ROWS = "broken_rows"
ALL = frozenset(names_in(INVARIANTS, "postgres")) - {COUNTING}
PARAMETERS = {"examine": NEWEST_EXAMINED, "most": MOST_VIOLATIONS}

Ask = Callable[[str], Sequence[Any]]
"""Answers a query in the words of its dialect."""


def require_invariants(request: pytest.FixtureRequest, url: str, shared: psycopg.Connection[Any] | None = None) -> None:
    """Fail if they do, unless the test says so: ``@pytest.mark.broken_rows("why", "heads_have_owners")``. Without
    names, all may be broken. *shared* is a connection that the database has already."""
    required = ALL - allowed(request.node)
    wrong = [f"{one.invariant}: {one}" for one in violations(url, required, shared)] if required else []
    if wrong:
        pytest.fail("the rows that the test leaves contradict each other:\n" + "\n".join(wrong[:20]), pytrace=False)


def allowed(test: pytest.Item) -> frozenset[str]:
    broken: set[str] = set()
    for marker in test.iter_markers(BROKEN_ROWS):
        why, *names = marker.args
        assert " " in why, f"say in a sentence why: {why}"
        assert ALL.issuperset(names), f"there are no such invariants: {', '.join(set(names) - ALL)}"
        broken.update(names or ALL)
    return frozenset(broken)


def violations(
    url: str, invariants: frozenset[str] = ALL, shared: psycopg.Connection[Any] | None = None
) -> Iterator[Violation]:
    if url.startswith("sqlite:"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        try:
            yield from _found("sqlite", lambda sql: list(connection.execute(sql, PARAMETERS)), invariants)
        finally:
            connection.close()
    elif shared is not None:
        yield from _in_postgres(shared, invariants)
    else:
        with psycopg.connect(url, autocommit=True) as own:
            yield from _in_postgres(own, invariants)


def _in_postgres(connection: psycopg.Connection[Any], invariants: frozenset[str]) -> Iterator[Violation]:
    yield from _found("postgres", lambda sql: connection.execute(sql, PARAMETERS).fetchall(), invariants)


def _found(dialect: str, ask: Ask, invariants: frozenset[str]) -> Iterator[Violation]:
    if not _is_current(dialect, ask):
        return
    for name in sorted(invariants):
        query = load(dialect)[name]
        yield from (Violation(name, *row) for row in ask(query.sql if dialect == "sqlite" else query.named()))


def _is_current(dialect: str, ask: Ask) -> bool:
    """Whether Duly has made its tables there."""
    schema = "" if dialect == "sqlite" else "duly."
    made = {
        "sqlite": "SELECT count(*) FROM sqlite_schema WHERE name = 'migrations'",
        "postgres": "SELECT count(to_regclass('duly.migrations'))",
    }
    if ask(made[dialect]) == [(0,)]:
        return False
    return ask(f"SELECT max(version) FROM {schema}migrations") == [(migrations(dialect)[-1].version,)]
