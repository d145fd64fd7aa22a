"""The check of ``duly doctor`` for who keeps PostgreSQL from removing dead rows."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from duly.cli.doctor.check_result import OK, WARN, CheckResult
from duly.cli.output import brief
from duly.duly import Duly
from duly.ports import Transaction

SUBJECT = "snapshots"

LONG = timedelta(minutes=5)
"""From when on an open snapshot is reported: each event leaves two dead rows, and every claim reads past them."""

MANY_TRANSACTIONS = 100_000
"""The same for a replication slot, of which nobody knows since when: transactions that began after its snapshot."""

MOST_SHOWN = 3
"""Holders that are listed, the oldest first."""

HOLDERS = """
SELECT kind, name, whose, coalesce(since, clock_timestamp()) AS since, behind, ends FROM (
    SELECT 'backend' AS kind, pid::text AS name,
           concat_ws(', ', usename, nullif(application_name, ''), state, 'query: ' || left(query, 100)) AS whose,
           xact_start AS since, age(backend_xmin) AS behind, format('SELECT pg_terminate_backend(%s)', pid) AS ends
    FROM pg_stat_activity
    WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()
    UNION ALL
    SELECT 'prepared transaction', gid, owner::text, prepared, age(transaction), format('ROLLBACK PREPARED %L', gid)
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'replication slot', slot_name::text, CASE WHEN active THEN 'active' ELSE 'nobody reads from it' END, NULL,
           greatest(age(xmin), age(catalog_xmin)), format('SELECT pg_drop_replication_slot(%L)', slot_name)
    FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
) AS holders ORDER BY behind DESC
"""

SEES_ALL = "SELECT pg_has_role('pg_read_all_stats', 'USAGE'), quote_ident(current_user)"


async def snapshots(duly: Duly) -> AsyncIterator[CheckResult]:
    """The backends, prepared transactions and replication slots that hold the oldest snapshots, with how to end them.
    (SQLite keeps old rows for a reader too, but nobody knows who that is.)"""
    if duly.one_writer:
        return
    async with duly.transaction() as tx:
        now = await tx.fetchval("SELECT clock_timestamp()")
        rows = await tx.fetch(HOLDERS)
        blind = await _blind(tx)
    old = [row for row in rows if _is_old(row, now)]
    for kind, name, whose, since, behind, ends in old[:MOST_SHOWN]:
        held = f"for {brief(now - since)}" if kind != "replication slot" else "for an unknown time"
        found = f"{kind} {name} ({whose}) has held a snapshot {held}; {behind:,} transactions have begun since"
        advice = "vacuum removes no row that is younger, and claims become slower; end it, if nobody needs it:"
        yield CheckResult(WARN, SUBJECT, found, advice, (f"{ends};",))
    if more := len(old[MOST_SHOWN:]):
        yield CheckResult(WARN, SUBJECT, f"and {more:,} more that are as old")
    if not old:
        yield CheckResult(OK, SUBJECT, f"nobody has held one for more than {brief(LONG)}{blind}")


def _is_old(row: Any, now: Any) -> bool:
    kind, _, _, since, behind, _ = row
    return bool(behind > MANY_TRANSACTIONS if kind == "replication slot" else now - since > LONG)


async def _blind(tx: Transaction) -> str:
    sees_all, user = await tx.fetchrow(SEES_ALL)
    return (
        "" if sees_all else f", of those that {user} may see: an administrator runs GRANT pg_read_all_stats TO {user}"
    )
