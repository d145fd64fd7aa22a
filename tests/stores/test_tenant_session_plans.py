"""Under the role of the API, each query that a request can run is allowed, and finds its rows by index as it does for
everybody else."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from duly import Duly
from duly.stores.finding.waiting import ASCENDING
from duly.stores.postgres.store import PLANS
from duly.stores.postgres.tenants.rls_role import ROLE
from duly.stores.queries import Query, load

FORBIDDEN = {
    "add_key", "key", "key_by_hash", "known_hashes", "list_keys", "keys_named", "revoke_key", "use_keys", "any_key",
    "forget_requests", "delete_ended", "forget_keys", "take_upkeep", "erase_user", "erase_answers",
    "begin_session", "session_key", "end_session", "forget_sessions",
    "beat", "leave", "forget_workers", "workers", "remembered_lanes",
    "complete", "complete_with_output", "take_ended", "put_roll_ups", "forget_roll_ups",
}  # fmt: skip
"""What is done beside the requests, not by them."""

ROWS = (
    """
    INSERT INTO duly.schedules (id, tenant, name, type, rule, payload, created, updated)
    SELECT md5('schedule' || n)::uuid, 't' || n % 50, 'n' || n, 'x', '{}', '{}', now(), now()
    FROM generate_series(1, 1000) AS n
    """,
    """
    INSERT INTO duly.users (id, tenant, key, first_name, last_name, date_of_birth, timezone, created, updated)
    SELECT md5('user' || n)::uuid, 't' || n % 50, 'key-' || n, 'Ada', 'Lovelace', '1990-03-15', 'UTC', now(), now()
    FROM generate_series(1, 5000) AS n
    """,
    """
    INSERT INTO duly.events (id, tenant, type, lane, status, due, ready, payload, created, key, claimed)
    SELECT md5('event' || n)::uuid, 't' || n % 50, 'greet', 'handler:greet',
           CASE WHEN n % 2 = 0 THEN 'PENDING' ELSE 'COMPLETED' END, now(), CASE WHEN n % 2 = 0 THEN now() END, '{}',
           now(), 'key-' || n, CASE WHEN n % 2 = 1 THEN now() END
    FROM generate_series(1, 20000) AS n
    """,
    """
    INSERT INTO duly.events (id, tenant, type, lane, due, ready, payload, created, series, occurrence, head, rule)
    SELECT md5('head' || id)::uuid, tenant, 'birthday', 'handler:birthday', now(), now(), '{}', now(),
           'user:' || id || ':birthday', '2027', true, '{}' FROM duly.users
    """,
    """
    INSERT INTO duly.events (id, tenant, type, lane, due, ready, payload, created, series, occurrence, head)
    SELECT md5('head' || id)::uuid, tenant, 'x', 'handler:x', now(), now(), '{}', now(), 'schedule:' || id, '2027', true
    FROM duly.schedules
    """,
    "INSERT INTO duly.journal (subject, at, act) SELECT id, now(), 'noted' FROM duly.events, generate_series(1, 2)",
)

INDEXES = {
    "get": {"events_pkey"},
    "lock": {"events_pkey"},
    "change": {"events_pkey"},
    "by_key": {"events_key", "events_freed_key"},
    "by_keys": {"events_key"},
    "put": {"events_key", "events_cancelled_key", "fired_keys_pkey"},
    "put_again": {"events_key", "fired_keys_pkey"},
    "remembered": {"fired_keys_pkey"},
    "take_keys": {"events_pkey", "events_key", "fired_keys_pkey"},
    "withdrawn": {"events_cancelled_key"},
    "history": {"events_pkey", "journal_pkey"},
    "schedules": {"schedules_pkey"},
    "schedule_named": {"schedules_tenant_name_key"},
    "shown_schedule": {"schedules_tenant_name_key", "events_head", "events_series"},
    "shown_schedules": {"schedules_tenant_name_key", "events_head", "events_series"},
    "walk_schedules": {"schedules_tenant_name_key", "events_head"},
    "free_heads": {"events_head"},
    "cancel_found": {"events_pkey"},
    "delete_schedule": {"schedules_pkey"},
    "head": {"events_head"},
    "head_id": {"events_head"},
    "taken": {"events_occurrence"},
    "facts": {"events_occurrence"},
    "passed_ahead": {"events_passed"},
    "free_names": {"events_pkey"},
    "reshape": {"events_pkey"},
    "user": {"users_pkey"},
    "user_by_key": {"users_key"},
    "users_by_keys": {"users_key"},
    "list_users_of": {"users_tenant"},
    "lock_users": {"users_pkey"},
    "change_users": {"users_pkey"},
    "delete_users": {"users_pkey"},
    "user_heads": set(),
    "user_head_ids": set(),
    "heads_of_users": set(),
    "lock_target": {"targets_tenant_name_key"},
    "recall": {"requests_pkey"},
    "remember": {"requests_pkey"},
}


@pytest.fixture
async def url(new_postgres: Callable[[], str]) -> str:
    url = new_postgres()
    async with Duly(url) as duly:
        await duly.store.prepare_rls_role()
    return url


@contextmanager
def tenant_session(connection: psycopg.Connection[Any]) -> Iterator[None]:
    with connection.transaction(force_rollback=True):
        for name, value in PLANS.items():
            connection.execute(f"SET LOCAL {name} = {value}")
        connection.execute(f"SET LOCAL ROLE {ROLE}")
        connection.execute("SET LOCAL duly.tenant = 't7'")
        yield


def explained(connection: psycopg.Connection[Any], query: Query) -> Any:
    """The plan for any values. (Whether it is allowed is looked at as well.)"""
    aliases = {"duly.users AS u": "u", "FROM duly.schedules AS s": "s"}
    alias = next((alias for table, alias in aliases.items() if table in query.sql), "e")
    text = query.sql.removeprefix("EXPLAIN (FORMAT JSON) ")
    for word, written in {"where": f"{alias}.tenant = :tenant", **ASCENDING}.items():
        text = text.replace(f"{{{word}}}", written)
    sql = Query(query.name, text, query.reads).numbered()
    [(plans,)] = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {sql}".encode()).fetchall()
    return (plans if isinstance(plans, list) else json.loads(plans))[0]["Plan"]


def narrows(condition: str) -> bool:
    """Whether it asks for more than that there is something."""
    return any(operator in condition for operator in ("=", "<", ">"))


def nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


async def test_a_tenant_session_may_run_each_query_except_those_about_keys_and_workers(url: str) -> None:
    refused = set()
    with psycopg.connect(url, autocommit=True) as connection:
        for name, query in load("postgres").items():
            try:
                with tenant_session(connection):
                    explained(connection, query)
            except psycopg.errors.InsufficientPrivilege:
                refused.add(name)
    assert refused == FORBIDDEN


@pytest.mark.parametrize("statistics", ["empty", "never analysed", "analysed"])
async def test_rows_are_found_by_the_index_of_their_name_also_with_an_old_plan(url: str, statistics: str) -> None:
    """Also by a plan that was made when there was nothing yet: it is kept."""
    problems = []
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("events", "schedules", "users", "journal"):
            connection.execute(f"ALTER TABLE duly.{table} SET (autovacuum_enabled = false)")
        for rows in ROWS if statistics != "empty" else ():
            connection.execute(rows.encode())
        if statistics == "analysed":
            connection.execute("ANALYZE")
        for name, wanted in INDEXES.items():
            with tenant_session(connection):
                found = list(nodes(explained(connection, load("postgres")[name])))
            used = {node.get("Index Name") for node in found} | {
                index for node in found for index in node.get("Conflict Arbiter Indexes", [])
            }
            if missing := wanted - used:
                problems.append(f"{name} does not use {missing}, but {used - {None}}")
            for node in found:
                if node["Node Type"] == "Seq Scan":
                    problems.append(f"{name} reads all of {node['Relation Name']}")
                elif "Index Name" in node and not narrows(node.get("Index Cond", "")):
                    problems.append(f"{name} reads all of {node['Index Name']}")
    assert not problems, "\n".join(problems)
