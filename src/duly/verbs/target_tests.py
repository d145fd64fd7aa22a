"""``duly.targets.test``: sends a test to a target, and tells what came back."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from duly.decide.checks import name_problems, target_problems, write_json
from duly.decide.error_text import storable
from duly.decide.targets.commands import is_command
from duly.decide.targets.targets import destination_of, named
from duly.engine.destinations.target_tester import PlannedTest, TargetTester
from duly.errors import Invalid, Misuse, NotFound, Problem
from duly.ids import new_id
from duly.ports import TargetStore
from duly.records.event import Event, Status, lane_of
from duly.records.results import TargetTest
from duly.records.target import Target
from duly.verbs.marks import for_doors

TEST_TYPE = "duly.test"
"""The event type of tests."""

TEST_PAYLOAD = '{"test":true,"message":"This is a test from Duly."}'


class TargetTests:
    """The tests among the verbs of targets."""

    _store: TargetStore
    _channels: Collection[str]
    _tester: TargetTester | None
    _via: str | None

    if TYPE_CHECKING:

        async def get(self, name: str, *, tenant: str = "default") -> Target: ...

    async def test(self, target: str | dict[str, Any], *, tenant: str = "default", by: str = "api") -> TargetTest:
        """Send a test to a stored target, by its name, or to a *target* as an event would have it, and tell what came
        back. The test is signed like a delivery, and its header ``Duly-Test: true`` and its body say that it is one. It
        goes through the guard and the limits of its destination, also if that is parked, and nothing counts it."""
        return await self.send_test(await self.plan_test(target, tenant=tenant), by=by)

    @for_doors
    async def plan_test(self, target: Any, *, tenant: str = "default") -> PlannedTest:
        """The test, checked and ready to be sent. Only this part needs the store of a request."""
        if isinstance(target, str):
            stored: Target | None = await self.get(target, tenant=tenant)
            assert stored is not None
            target = {stored.channel: {"target": stored.name}}
        else:
            stored = None
            self._check(target, tenant)
            if (name := named(target)) is not None:
                stored = await self._named(*name, tenant)
        [channel] = target
        now, destination = await self._store.now(), destination_of(target)
        known = None if destination is None else (await self._store.destinations([(tenant, destination)]))[0]
        event = Event(
            id=new_id(),
            tenant=tenant,
            type=TEST_TYPE,
            lane=lane_of(TEST_TYPE, target),
            status=Status.PROCESSING,
            due=now,
            ready=None,
            version=1,
            attempts=0,
            interruptions=0,
            stands_for=1,
            payload_json=TEST_PAYLOAD,
            target_json=_written(target),
            retry_json=None,
            key=None,
            correlation_id=None,
            series=None,
            occurrence=None,
            head=False,
            held=None,
            hold_kind=None,
            held_for=None,
            last_error=None,
            created=now,
            claimed=now,
            executed=None,
            worker=None,
            destination=destination,
            via=self._via,
            is_test=True,
        )
        return PlannedTest(event, channel, known, None if stored is None else stored.id)

    @for_doors
    async def send_test(self, test: PlannedTest, *, by: str = "api") -> TargetTest:
        """Sends a planned test, outside of any transaction."""
        if self._tester is None:
            raise Misuse("these verbs belong to a transaction or a request, and send nothing: use duly.targets.test")
        told = await self._tester.send(test)
        if test.id is not None:
            came = f"{told.outcome}: {told.error or told.status or 'acknowledged'}"
            await self._store.note([(test.id, "tested", storable(came))], storable(by))
        return told

    async def _named(self, channel: str, name: str, tenant: str) -> Target:
        try:
            return await self.get(name, tenant=tenant)
        except NotFound as error:
            raise Invalid([Problem(f"target.{channel}.target", str(error))]) from None

    def _check(self, target: Any, tenant: str) -> None:
        problems = [*name_problems("tenant", tenant)]
        if target is None:
            problems.append(Problem("target", "is missing: name a stored target, or give one such as a webhook's"))
        problems += target_problems(target, self._channels)
        if self._via is not None and is_command(target):
            told = "is not tested over HTTP: use `duly targets test --command` on a worker's machine"
            raise Invalid([Problem("target.command", told)])
        if problems:
            raise Invalid(problems)


def _written(target: dict[str, Any]) -> str:
    written = write_json(target, "target")
    if isinstance(written, Problem):
        raise Invalid([written])
    return written
