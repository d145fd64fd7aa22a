"""A worker whose role may not delete events works all the same, and says so once."""

from duly import Duly, Event
from duly.signals import EventsPruned, PruningRefused
from tests.modest import ModestDatabase
from tests.worker.running_worker import Told, until, working


async def test_a_worker_that_may_not_delete_events_delivers_them_and_says_once_that_they_stay(
    modest: ModestDatabase,
) -> None:
    async with Duly(modest.admin) as owner:
        modest.as_admin(owner.store.rls_role_script(modest.user))
        modest.as_admin(f"REVOKE DELETE ON duly.events FROM {modest.user}")
        app = Duly(modest.url, retention="1s", migrate=False, api_role="off")
        told = Told(app)
        delivered: list[str] = []

        @app.on("greet")
        async def greet(event: Event) -> None:
            delivered.append(event.id)

        async with app, working(app):
            first = await app.after("0s", "greet")
            await until(lambda: told.of(PruningRefused), "it is told")
            second = await app.after("0s", "greet")
            await until(lambda: len(delivered) == 2, "both are delivered")
            assert delivered == [first.id, second.id]
            modest.as_admin(f"GRANT DELETE ON duly.events TO {modest.user}")
            await until(lambda: told.of(EventsPruned), "it is allowed to, and prunes")
        [refused] = told.of(PruningRefused)
        assert "permission denied for table events" in refused.error
