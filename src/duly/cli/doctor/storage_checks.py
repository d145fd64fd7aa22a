"""The checks of ``duly doctor`` for the tables: permissions, indexes, dead rows and free pages."""

import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from duly.cli.doctor.check_result import FAIL, OK, WARN, CheckResult
from duly.cli.output import counted
from duly.duly import Duly

DEAD_ROWS = 50_000
"""Dead rows of a table that are reported, if they are also more than DEAD_SHARE of its rows."""

DEAD_SHARE = 0.5

FREE_BYTES = 64 * 2**20
"""Bytes of free pages in a SQLite file that are reported, if they are also more than half of it."""

ROWS_TO_ANALYSE = 10_000
"""Rows of a table from which on the planner needs statistics."""

MISSING_INDEX = "without it, each claim or lookup reads the whole table; create it:"

CLAIM = "SELECT id FROM {events} WHERE lane = '' AND unsettled = 0 AND ready <= {now} ORDER BY ready LIMIT 100"
"""What a claim looks for, as far as its index goes."""


async def storage(duly: Duly) -> AsyncIterator[CheckResult]:
    checks = (_file, _sqlite_indexes, _sqlite_pages) if duly.one_writer else (_rights, _indexes, _claims, _dead_rows)
    for check in checks:
        async for finding in check(duly):
            yield finding


# -- SQLite


async def _file(duly: Duly) -> AsyncIterator[CheckResult]:
    if (found := _permissions(duly)) is not None:
        yield found


def _permissions(duly: Duly) -> CheckResult | None:
    """Whether this user may write, and others may not read: payloads may be secret."""
    path = Path(str(getattr(duly.store, "path", "")))
    if not path.is_file():
        return None
    mode = stat.S_IMODE(path.stat().st_mode)
    if unwritable := [str(one) for one in (path, path.absolute().parent) if not os.access(one, os.W_OK)]:
        found = f"this user may not write to {' and '.join(unwritable)}"
        return CheckResult(FAIL, "permissions", found, "run Duly as the owner, or change who may write there")
    if mode & 0o007:
        found = f"every user of this machine may {'change' if mode & 0o002 else 'read'} {path} (mode {mode:o})"
        return CheckResult(WARN, "permissions", found, f"chmod o-rwx {path}", fix="mode")
    return CheckResult(OK, "permissions", f"{path} has mode {mode:o}")


async def _sqlite_indexes(duly: Duly) -> AsyncIterator[CheckResult]:
    async with duly.transaction() as tx:
        there = {row[0] for row in await tx.fetch("SELECT name FROM sqlite_schema WHERE type = 'index'")}
        plan = await tx.fetch("EXPLAIN QUERY PLAN " + CLAIM.format(events="events", now=0))
    for finding in _missing(duly, there):
        yield finding
    told = " ".join(str(row[-1]) for row in plan)
    for finding in _used(duly, there, told, "events_ready"):
        yield finding


async def _sqlite_pages(duly: Duly) -> AsyncIterator[CheckResult]:
    async with duly.transaction() as tx:
        free, pages, size = [
            await tx.fetchval(f"PRAGMA {name}") for name in ("freelist_count", "page_count", "page_size")
        ]
    found = f"{_bytes(pages * size)}, of which {_bytes(free * size)} are free pages"
    if free * size > FREE_BYTES and free > pages / 2:
        advice = "new events will use them; to make the file small, run VACUUM with sqlite3 while no worker runs"
        yield CheckResult(WARN, "bloat", found, advice)
    else:
        yield CheckResult(OK, "bloat", found)


# -- PostgreSQL


async def _rights(duly: Duly) -> AsyncIterator[CheckResult]:
    """What the user lacks to be a worker, a server and a caller."""
    lacking, statements = await duly.store.lacking_rights()
    if lacking:
        found = f"this user lacks {'; '.join(lacking)}"
        yield CheckResult(
            WARN, "permissions", found, "if it runs workers or servers, an administrator runs:", statements
        )
    else:
        yield CheckResult(OK, "permissions", "this user has all privileges of workers and servers")


async def _indexes(duly: Duly) -> AsyncIterator[CheckResult]:
    async with duly.transaction() as tx:
        rows = await tx.fetch(
            "SELECT c.relname, i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid "
            "WHERE c.relnamespace = 'duly'::regnamespace"
        )
    for name, valid in rows:
        if not valid:
            advice = "it was being built and is not used; build it again:"
            yield CheckResult(
                FAIL, "indexes", f"{name} is invalid", advice, (f"REINDEX INDEX CONCURRENTLY duly.{name};",)
            )
    there = {name for name, _ in rows}
    for finding in _missing(duly, there):
        yield finding
    if not set(duly.store.indexes()) - there and all(valid for _, valid in rows):
        yield CheckResult(OK, "indexes", f"all {len(duly.store.indexes())} are there and valid")


async def _claims(duly: Duly) -> AsyncIterator[CheckResult]:
    """Whether the planner would look through a whole table."""
    async with duly.transaction() as tx:
        many = await tx.fetchval("SELECT reltuples::bigint FROM pg_class WHERE oid = 'duly.events'::regclass")
        plan = await tx.fetch("EXPLAIN " + CLAIM.format(events="duly.events", now="now()"))
    told = " ".join(row[0] for row in plan)
    if "Index" not in told and many > ROWS_TO_ANALYSE:
        advice = "the planner has no or old statistics"
        yield CheckResult(WARN, "claims", "a claim looks through the whole table of events", advice, fix="analyze")
    else:
        yield CheckResult(
            OK, "claims", "the planner finds ready events by an index" if "Index" in told else "few events"
        )


async def _dead_rows(duly: Duly) -> AsyncIterator[CheckResult]:
    async with duly.transaction() as tx:
        tables = await tx.fetch(
            "SELECT relname, n_live_tup, n_dead_tup, greatest(last_vacuum, last_autovacuum)::text, "
            "greatest(last_analyze, last_autoanalyze) IS NOT NULL, pg_total_relation_size(relid) "
            "FROM pg_stat_user_tables WHERE schemaname = 'duly' ORDER BY n_dead_tup DESC"
        )
        autovacuum = await tx.fetchval("SHOW autovacuum")
    if autovacuum == "off":
        advice = "set autovacuum to on in postgresql.conf: each event leaves two dead rows, and claims read past them"
        yield CheckResult(FAIL, "bloat", "autovacuum is off", advice)
    bad = False
    for name, live, dead, vacuumed, analysed, _ in tables:
        if dead > DEAD_ROWS and dead > DEAD_SHARE * live:
            bad = True
            found = f"{name} has {dead:,} dead rows beside {live:,} others; last vacuumed: {vacuumed or 'never'}"
            advice = "see `snapshots` for what keeps vacuum from removing them; otherwise run:"
            yield CheckResult(WARN, "bloat", found, advice, (f"VACUUM (ANALYZE) duly.{name};",))
        if live > ROWS_TO_ANALYSE and not analysed:
            bad = True
            found = f"{name} has {live:,} rows and was never analysed: the planner guesses"
            yield CheckResult(WARN, "statistics", found, "let autovacuum run, or analyse it", fix="analyze")
    if not bad and autovacuum != "off":
        dead, size = sum(row[2] for row in tables), sum(row[-1] for row in tables)
        yield CheckResult(OK, "bloat", f"{_bytes(size)} with indexes, {counted(dead, 'dead row')}")


def _missing(duly: Duly, there: set[str]) -> Iterator[CheckResult]:
    for name, statement in duly.store.indexes().items():
        if name not in there:
            fix = "indexes" if duly.one_writer else None
            yield CheckResult(FAIL, "indexes", f"{name} is missing", MISSING_INDEX, (f"{statement};",), fix)


def _used(duly: Duly, there: set[str], plan: str, index: str) -> Iterator[CheckResult]:
    expected = duly.store.indexes()
    if set(expected) - there:
        return
    if index not in plan:
        yield CheckResult(WARN, "indexes", f"claims do not use {index}: {plan}", "report a bug with this line")
    else:
        yield CheckResult(OK, "indexes", f"all {len(expected)} are there, and claims use {index}")


def _bytes(many: int) -> str:
    return f"{many / 2**20:,.1f} MB"
