"""What people do through the API works under its role, one transaction to a call: the tests of the verbs once more, on
PostgreSQL, each call confined to the tenant that it names."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from duly import Duly, Timer
from duly.engine.schedule import put_timer
from duly.ports import Added
from duly.testing import ManualClock
from duly.values.instants import read_due
from duly.verbs.events.events import Events
from duly.verbs.schedules.schedules import Schedules
from duly.verbs.targets import Targets
from duly.verbs.users.users import Users
from tests.api import (
    test_dead_letters,
    test_edited_replays,
    test_events,
    test_schedule_verbs,
    test_schedules,
    test_targets,
    test_timers,
    test_users,
)
from tests.conftest import OpenDuly


class Confining:
    """The verbs of one subject, each call in a request of its own."""

    def __init__(self, duly: Duly, verbs: Any, within: Callable[[Any], Any]) -> None:
        self._duly, self._verbs, self._within = duly, verbs, within

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._verbs, name)
        if name.startswith("_") or name == "signing_secret":
            return verb

        async def call(*args: Any, **options: Any) -> Any:
            if options.get("transaction") is not None:  # the caller's own: no request of the API
                return await verb(*args, **options)
            async with self._duly.store.tenant_session(options.get("tenant") or "default", writes=True) as request:
                return await getattr(self._within(request), name)(*args, **options)

        return call


class ThroughTheApi(Duly):
    """All that a request can ask for, as the API would carry it out."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        key, of = self.settings.secret_key, self.transaction_of
        self.events: Any = Confining(self, self.events, lambda at: Events(at, self._channels))
        self.schedules: Any = Confining(self, self.schedules, lambda at: Schedules(at, self._channels, of, at))
        self.users: Any = Confining(self, self.users, lambda at: Users(at, self.calendars, of))
        self.targets: Any = Confining(
            self, self.targets, lambda at: Targets(at, self.destination_cache.forget, key, self._signals)
        )

    async def put(
        self, due: Any = None, type: str = "", payload: Any = None, *, transaction: Any = None, **options: Any
    ) -> Added:
        if transaction is not None:
            return await super().put(due, type, payload, transaction=transaction, **options)
        timer = Timer(read_due(due), type, payload, **options)
        async with self.store.tenant_session(timer.tenant, writes=True) as request:
            return await put_timer(request, timer, self._channels)


@pytest.fixture
def url(clean_postgres: str) -> str:
    return clean_postgres


@pytest.fixture
async def duly(url: str, clock: ManualClock) -> AsyncIterator[OpenDuly]:
    async with AsyncExitStack() as stack:

        async def duly(**options: Any) -> Duly:
            app = ThroughTheApi(**({"database_url": url, "clock": clock} | options))
            await stack.enter_async_context(app)
            await app.store.prepare_rls_role()
            return app

        yield duly


SEVERAL_TENANTS_IN_ONE_CALL = """
    test_a_spec_and_a_tenant_say_which_dead_letters_are_replayed
    test_another_tenants_event_does_not_exist
    test_an_event_says_the_name_of_its_schedule_also_of_one_that_is_deleted
    test_pages_of_events_are_of_one_tenant_and_follow_one_another
    test_dead_letters_are_counted_by_tenant_type_and_destination
    test_targets_are_listed_in_pages_in_the_order_of_tenants_and_names
    test_dead_letters_end_the_same_together_as_one_by_one
    test_schedules_are_listed_by_tenant_and_name_in_pages
    test_targets_of_the_same_name_in_two_tenants_are_independent
    test_users_with_the_same_key_in_two_tenants_are_independent
    test_users_are_listed_the_newest_first_page_by_page
    test_a_target_parked_or_limited_for_one_tenant_is_not_so_for_another
    test_events_of_other_tenants_do_not_exist
"""
A_TENANT_THAT_CANNOT_BE = """
    test_a_bad_schedule_is_refused_with_all_its_problems
    test_a_bad_timer_is_refused_with_all_its_problems
    test_a_key_that_no_timer_can_have_is_not_found
"""
SEVERAL_TRANSACTIONS_IN_ONE_CALL = """
    test_a_cancelled_replay_leaves_whole_transactions_and_another_call_goes_on
    test_events_that_fail_during_a_replay_are_left_for_another_call
    test_dead_letters_that_somebody_else_took_up_meanwhile_are_left_alone
    test_raising_from_progress_stops_a_replay_and_another_call_goes_on
"""
ERASES_A_PERSON = ("test_the_event_of_a_person_who_was_erased_is_not_replayed",)
LEFT_OUT = (
    *f"{SEVERAL_TENANTS_IN_ONE_CALL} {A_TENANT_THAT_CANNOT_BE} {SEVERAL_TRANSACTIONS_IN_ONE_CALL}".split(),
    *ERASES_A_PERSON,
)
"""What no request of the API asks for."""

MODULES = (
    test_dead_letters,
    test_edited_replays,
    test_events,
    test_schedule_verbs,
    test_schedules,
    test_targets,
    test_timers,
    test_users,
)
for module in MODULES:
    for name, found in list(vars(module).items()):
        if not name.startswith("__") and name not in LEFT_OUT:
            globals().setdefault(name, found)  # the tests, and the fixtures that they have beside them


def test_every_test_that_this_module_leaves_out_exists() -> None:
    assert [name for name in LEFT_OUT if not any(hasattr(module, name) for module in MODULES)] == []
