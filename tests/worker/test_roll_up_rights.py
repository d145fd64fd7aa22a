"""A worker whose role may count runs and not roll them up works all the same, and says so once."""

import pytest

from duly import Duly, Event
from duly.engine.figures import roll_up
from duly.signals import RollUpRefused
from duly.stores.migrations import migrations
from tests.modest import ModestDatabase
from tests.worker.running_worker import Told, until, working


async def test_a_worker_that_may_not_roll_up_delivers_and_counts_and_says_so_once(
    modest: ModestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roll_up, "EVERY_S", 0.01)
    async with Duly(modest.admin) as owner:
        modest.as_admin(owner.store.rls_role_script(modest.user))
        modest.as_admin(f"REVOKE UPDATE, DELETE ON duly.ended_runs FROM {modest.user}")
        app = Duly(modest.url, migrate=False, api_role="off")
        told, delivered = Told(app), list[str]()

        @app.on("greet")
        async def greet(event: Event) -> None:
            delivered.append(event.id)

        async with app, working(app):
            first = await app.after("0s", "greet")
            await until(lambda: told.of(RollUpRefused), "it is told")
            second = await app.after("0s", "greet")
            await until(lambda: len(delivered) == 2, "both are delivered")
            assert delivered == [first.id, second.id]
            await app.tick()
        assert (await owner.stats()).total.completed == 2
        [refused] = told.of(RollUpRefused)
        assert "permission denied for table ended_runs" in refused.error


async def test_roles_that_could_change_events_may_count_runs_after_the_migration(modest: ModestDatabase) -> None:
    async with Duly(modest.admin) as owner:
        modest.as_admin(owner.store.rls_role_script(modest.user))
        modest.as_admin("DROP TABLE duly.ended_runs, duly.roll_ups; DROP FUNCTION duly.count_ended_run() CASCADE")
        [migration] = [one for one in migrations("postgres") if one.name == "roll_ups"]
        modest.as_admin(migration.sql)
        [[lacking]] = modest.as_admin(
            "SELECT count(*) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p (p), "
            "unnest(ARRAY['ended_runs', 'roll_ups']) AS t (t) "
            f"WHERE NOT has_table_privilege('{modest.user}', 'duly.' || t, p)"
        )
        assert lacking == 0
        may = (
            "SELECT has_table_privilege(rolname, 'duly.ended_runs', 'INSERT') FROM pg_roles WHERE rolname = 'duly_api'"
        )
        assert modest.as_admin(may) in ([], [(False,)])
