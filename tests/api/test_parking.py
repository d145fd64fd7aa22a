"""A destination that is down is parked: its events are held, one of them is a probe now and then, and what waited is
released when it answers. Time is the test's own, and so is the destination."""

import asyncio
from typing import Any

import pytest

from duly import Conflict, Delivered, Duly, Event, Failed, InStatus, Rejected, Retry, Status, every, http, webhook
from duly.records.event import Outcome
from duly.signals import DestinationOpened, DestinationParked
from duly.testing import ManualClock
from tests.api.sending import acts, many_due, one_due
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, LEASE, MINUTE, SECOND
from tests.receivers.obedient import Answer, Obedient
from tests.stores.rows import ask
from tests.worker.running_worker import until, working

URL = "https://hooks.example/in"
ORIGIN = "https://hooks.example"
DOWN = Failed("503 Service Unavailable from hooks.example", outage=True)
HELD = f"target {ORIGIN} is parked: 503 Service Unavailable from hooks.example"
PATIENT = Retry(max_attempts=100)


class Destination:
    """A channel that answers what the test says, to all or to some."""

    def __init__(self, outcome: Outcome = DOWN) -> None:
        self.outcome = outcome
        self.only: dict[str, Outcome] = {}  # by event
        self.events: list[Event] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def deliver(self, event: Event) -> Outcome:
        self.events.append(event)
        await self.may_answer.wait()
        return self.only.get(event.id, self.outcome)

    @property
    def ids(self) -> list[str]:
        return [event.id for event in self.events]

    def forget(self) -> None:
        self.events.clear()


@pytest.fixture
def there() -> Destination:
    return Destination()


@pytest.fixture
async def app(duly: OpenDuly, there: Destination) -> Duly:
    return await duly(channels={"webhook": there})


async def parked(app: Duly, clock: ManualClock, there: Destination, **options: Any) -> None:
    """Ten events fail, and the destination is parked. They are gone; what comes next is held."""
    ids = await many_due(app, clock, webhook(URL), 10, retry=Retry(max_attempts=1), **options)
    await app.tick()
    assert [(await app.events.get(id)).status for id in ids] == [Status.FAILED] * 10
    assert (await app.targets.known(URL.removesuffix("/in"), **options)).parked is not None
    there.forget()


async def waiting(app: Duly, clock: ManualClock, count: int = 1, **options: Any) -> list[str]:
    """Events that come due while it is parked, a second apart, and are held."""
    ids = []
    for _ in range(count):
        ids.append((await one_due(app, clock, webhook(URL), **options)).id)
        clock.advance(SECOND)
    await app.tick()
    assert {(await app.events.get(id)).held for id in ids} == {HELD}
    return ids


async def is_parked(app: Duly, tenant: str = "default") -> bool:
    return (await app.targets.known(ORIGIN, tenant=tenant)).parked is not None


async def all_in(app: Duly, status: Status) -> list[str]:
    return sorted(event.id for event in await app.events.find(InStatus(status), limit=1000))


# -- what parks


@pytest.mark.parametrize(("failures", "parks"), [(9, False), (10, True)])
async def test_ten_failures_in_a_row_open_the_circuit_breaker_of_a_destination(
    app: Duly, clock: ManualClock, there: Destination, failures: int, parks: bool
) -> None:
    told: list[DestinationParked] = []
    app.observe(told.append, DestinationParked)
    await many_due(app, clock, webhook(URL), failures)
    await app.tick()
    assert await is_parked(app) is parks
    reason = "is parked: 503 Service Unavailable from hooks.example"
    assert told == ([DestinationParked("default", ORIGIN, reason, gone=False)] if parks else [])


async def test_one_event_that_fails_again_and_again_parks_no_destination(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    """A receiver may choke on it alone."""
    app = await duly(channels={"webhook": there}, poll_interval="10ms")
    retry = Retry(max_attempts=1000, base=SECOND, max=SECOND)
    await many_due(app, clock, webhook(URL), 4, retry=retry)

    async def tried(times: int) -> bool:
        clock.advance(2 * SECOND)
        return len(there.events) >= times

    async def parks() -> bool:
        clock.advance(2 * SECOND)
        return await is_parked(app)

    async with working(app):
        await until(lambda: tried(40), "each of four has failed ten times")
        assert not await is_parked(app)
        await one_due(app, clock, webhook(URL), retry=retry)
        await until(parks, "a fifth has failed as well")


@pytest.mark.parametrize(
    "outcome",
    [
        Failed("busy"),
        Failed("busy", 5 * SECOND),
        Rejected("400 Bad Request"),
        Delivered(),
    ],
)
async def test_an_answer_of_a_living_receiver_parks_no_destination(
    app: Duly, clock: ManualClock, there: Destination, outcome: Outcome
) -> None:
    there.outcome = outcome
    await many_due(app, clock, webhook(URL), 30)
    await app.tick()
    assert not await is_parked(app)


async def test_a_receiver_that_asks_for_patience_has_not_failed(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app = await duly(channels={"webhook": there}, poll_interval="10ms")
    async with working(app):
        there.outcome = Failed("busy", 5 * SECOND)
        await many_due(app, clock, webhook(URL), 20)
        await until(lambda: len(there.events) == 20, "all were asked for patience")
        there.outcome = DOWN
        await many_due(app, clock, webhook(URL), 9)
        await until(lambda: len(there.events) == 29, "nine have failed")
        await asyncio.sleep(0.05)
        assert not await is_parked(app)


async def test_a_success_in_between_resets_the_count_of_failures(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app = await duly(channels={"webhook": there}, poll_interval="10ms")
    async with working(app):
        for outcome, many in ((DOWN, 9), (Delivered(), 1), (DOWN, 9)):
            there.outcome = outcome
            there.forget()
            await many_due(app, clock, webhook(URL), many, retry=PATIENT)
            await until(lambda many=many: len(there.events) == many, "all were tried")
        await asyncio.sleep(0.05)
        assert not await is_parked(app)


async def test_network_errors_and_5xx_of_a_real_receiver_park_its_destination(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient
) -> None:
    app = await duly(webhook_allow="127.0.0.0/8")
    receiver.answer = Answer(500)
    await many_due(app, clock, webhook(receiver.url()), 10)
    await many_due(app, clock, webhook("http://127.0.0.1:9/in"), 10)
    await app.tick()
    assert {known.parked for known in await app.targets.destinations()} == {
        "is parked: cannot connect: Connection refused (127.0.0.1:9)",
        f"is parked: 500 Internal Server Error from {receiver.origin.removeprefix('http://')}",
    }


async def test_one_tenants_failures_park_nothing_of_anothers(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app = await duly(channels={"webhook": there})
    await parked(app, clock, there, tenant="acme")
    assert await is_parked(app, "acme")
    assert not await is_parked(app, "globex")
    event = await one_due(app, clock, webhook(URL), tenant="globex")
    await app.tick()
    assert (await app.events.get(event.id)).attempts == 1


async def test_a_stored_target_and_the_origin_of_its_url_are_different_destinations(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app = await duly(channels={"webhook": there}, secret_key="k" * 40)
    await app.targets.put("crm", URL)
    await many_due(app, clock, webhook(target="crm"), 10)
    await app.tick()
    assert [known.destination for known in await app.targets.destinations()] == ["crm"]
    assert not await is_parked(app)


# -- while it is parked


async def test_events_for_a_parked_destination_are_held_with_the_reason_and_spend_no_attempt(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    [id] = await waiting(app, clock)
    for _ in range(5):
        await app.tick()
    assert there.events == []
    event = await app.events.get(id)
    assert (event.status, event.attempts, event.interruptions, event.ready) == (Status.PENDING, 0, 0, None)
    assert await acts(app, id) == ["held"]
    assert await app.targets.waiting(ORIGIN) == 1


async def test_another_worker_holds_events_for_a_parked_destination(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app, other = await duly(channels={"webhook": there}), await duly(channels={"webhook": there})
    await parked(app, clock, there)
    await waiting(other, clock)
    assert there.events == []


async def test_other_destinations_go_on_while_one_is_parked(app: Duly, clock: ManualClock, there: Destination) -> None:
    await parked(app, clock, there)
    there.outcome = Delivered()
    event = await one_due(app, clock, webhook("https://other.example/in"))
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.COMPLETED


# -- probes


async def test_probes_come_after_half_a_minute_and_then_less_and_less_often(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    last = clock.now()
    [id] = await waiting(app, clock)
    apart = []
    for _ in range(7):
        probe_at = (await app.targets.known(ORIGIN)).probe_at
        assert probe_at is not None
        clock.set(probe_at - SECOND)
        await app.tick()
        assert there.events == []
        clock.set(probe_at)
        await app.tick()
        assert there.ids == [id]
        there.forget()
        apart.append((probe_at - last).total_seconds())
        last = probe_at
    assert apart == [30, 60, 120, 240, 480, 600, 600]
    event = await app.events.get(id)
    assert (event.attempts, event.held) == (0, HELD), "and it spends nothing"
    assert await acts(app, id) == ["held"] * 8


async def test_when_a_parked_destination_answers_its_events_are_released_in_order_each_once(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app = await duly(channels={"webhook": there}, concurrency=1)
    told: list[DestinationOpened] = []
    app.observe(told.append, DestinationOpened)
    await parked(app, clock, there)
    since = clock.now()
    ids = await waiting(app, clock, 25)
    there.outcome = Delivered()
    clock.set(since + 30 * SECOND)
    await app.tick()
    assert there.ids == ids
    assert await all_in(app, Status.COMPLETED) == sorted(ids)
    assert not await is_parked(app)
    assert told == [DestinationOpened("default", ORIGIN, 30 * SECOND)]
    assert await acts(app, ids[0]) == ["held", "delivered"]
    assert await acts(app, ids[-1]) == ["held", "released", "delivered"]
    await app.tick()
    assert there.ids == ids


async def test_a_probe_that_is_rejected_opens_the_destination(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    first, second = await waiting(app, clock, 2)
    there.outcome, there.only = Delivered(), {first: Rejected("400 Bad Request")}
    clock.advance(MINUTE)
    await app.tick()
    assert not await is_parked(app)
    assert (await app.events.get(first)).attempts == 1, "that was an attempt"
    assert (await app.events.get(second)).status is Status.COMPLETED


@pytest.mark.parametrize("outage", [True, False])
async def test_a_probe_that_is_to_be_retried_opens_nothing_and_costs_nothing(
    app: Duly, clock: ManualClock, there: Destination, outage: bool
) -> None:
    await parked(app, clock, there)
    ids = await waiting(app, clock, 2)
    there.forget()
    there.outcome = Failed("404 Not Found from hooks.example", 5 * SECOND, outage=outage)
    clock.advance(MINUTE)
    await app.tick()
    assert there.ids == ids[:1]
    assert await is_parked(app)
    assert [(await app.events.get(id)).attempts for id in ids] == [0, 0]
    assert (await app.events.get(ids[0])).held == f"target {ORIGIN} is parked: 404 Not Found from hooks.example"


@pytest.mark.parametrize("status", [401, 403, 404, 408, 425, 429, 500, 503])
async def test_a_receiver_that_is_deployed_badly_loses_no_event(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient, status: int
) -> None:
    """It answers 404 for five minutes, say, because a route is missing."""
    app = await duly(webhook_allow="127.0.0.0/8")
    receiver.answer = Answer(status)
    ids = await many_due(app, clock, webhook(receiver.url()), 20)
    for _ in range(10):
        await app.tick()
        clock.advance(30 * SECOND)
    assert (await app.targets.known(receiver.origin)).parked is not None
    assert await all_in(app, Status.FAILED) == []
    receiver.answer = Answer(204)
    for _ in range(10):
        clock.advance(2 * MINUTE)
        await app.tick()
    assert await all_in(app, Status.COMPLETED) == sorted(ids)


@pytest.mark.parametrize("status", [302, 400, 409, 422])
async def test_a_receiver_that_rejects_a_probe_is_there_again(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient, status: int
) -> None:
    app = await duly(webhook_allow="127.0.0.0/8")
    receiver.answer = Answer(503)
    await many_due(app, clock, webhook(receiver.url()), 10)
    await app.tick()
    receiver.answer = Answer(status)
    event = await one_due(app, clock, webhook(receiver.url()))
    await app.tick()
    assert (await app.events.get(event.id)).held is not None
    clock.advance(MINUTE)
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.FAILED
    assert (await app.targets.known(receiver.origin)).parked is None


async def test_a_request_counts_the_statuses_that_its_target_retries_towards_parking(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient
) -> None:
    app = await duly(webhook_allow="127.0.0.0/8")
    target = http("PUT", receiver.url(), retry_statuses=[409])
    receiver.answer = Answer(404)
    await many_due(app, clock, target, 20)
    await app.tick()
    assert (await app.targets.known(receiver.origin)).parked is None
    receiver.answer = Answer(409)
    await many_due(app, clock, target, 20)
    await app.tick()
    assert (await app.targets.known(receiver.origin)).parked is not None


async def test_a_stored_target_that_answers_a_probe_with_410_is_disabled_and_not_opened(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app = await duly(channels={"webhook": there}, secret_key="k" * 40)
    told: list[DestinationOpened] = []
    app.observe(told.append, DestinationOpened)
    await app.targets.put("crm", URL)
    await many_due(app, clock, webhook(target="crm"), 10)
    await app.tick()
    await many_due(app, clock, webhook(target="crm"), 2)
    await app.tick()
    clock.advance(MINUTE)
    there.outcome = Rejected("410 Gone", gone=True)
    there.forget()
    await app.tick()
    await app.tick()
    assert len(there.events) == 1, "nothing else was released to it"
    crm = await app.targets.get("crm")
    assert (crm.enabled, crm.known and crm.known.parked) == (False, "is disabled: 410 Gone")
    assert told == []


async def test_a_url_that_answers_a_probe_with_410_is_disabled_and_others_of_its_origin_are_probed(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    gone = await waiting(app, clock, 3)
    other = (await one_due(app, clock, webhook(f"{ORIGIN}/other"))).id
    await app.tick()
    there.forget()
    there.outcome, there.only = Delivered(), {id: Rejected("410 Gone", gone=True) for id in gone}
    clock.advance(MINUTE)
    await app.tick()
    assert there.ids == gone[:1]
    assert await is_parked(app)
    assert (await app.targets.known(URL)).parked == "is disabled: 410 Gone"
    for _ in range(4):
        clock.advance(2 * MINUTE)
        await app.tick()
    assert there.ids == [gone[0], other], "what waits for the disabled URL is not sent as a probe"
    assert not await is_parked(app)
    assert {(await app.events.get(id)).held for id in gone[1:]} == {f"target {URL} is disabled: 410 Gone"}


async def test_a_parked_destination_for_which_nothing_waits_opens_by_itself(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    clock.advance(30 * SECOND)
    await app.tick()
    assert there.events == []
    assert not await is_parked(app)
    await app.tick()
    assert await ask(app.store, "SELECT count(*) FROM duly.destinations WHERE since IS NOT NULL") == 0


async def test_a_parked_destination_stays_parked_while_its_events_wait_for_their_next_attempt(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    """They would spend that attempt as well."""
    await many_due(app, clock, webhook(URL), 10, retry=Retry(max_attempts=2, base=5 * MINUTE))
    await app.tick()
    there.forget()
    for _ in range(30):
        clock.advance(MINUTE)
        await app.tick()
    assert await is_parked(app)
    assert {len(await acts(app, event.id)) > 1 for event in there.events} == {True}
    assert await all_in(app, Status.FAILED) == []


async def test_a_person_can_have_a_parked_destination_probed_at_once(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    [id] = await waiting(app, clock)
    there.outcome = Delivered()
    await app.targets.probe(ORIGIN)
    await app.tick()
    assert (await app.events.get(id)).status is Status.COMPLETED


async def test_a_person_can_open_a_parked_destination(app: Duly, clock: ManualClock, there: Destination) -> None:
    await parked(app, clock, there)
    ids = await waiting(app, clock, 3)
    there.outcome = Delivered()
    assert await app.targets.enable(ORIGIN, by="ada") == 3
    await app.tick()
    assert await all_in(app, Status.COMPLETED) == sorted(ids)
    with pytest.raises(Conflict, match="is not parked"):
        await app.targets.enable(ORIGIN)


async def test_a_destination_that_is_disabled_while_it_is_parked_is_not_probed(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    [id] = await waiting(app, clock)
    there.outcome = Delivered()
    await app.targets.disable(ORIGIN, reason="it moves")
    clock.advance(DAY)
    await app.tick()
    assert there.events == []
    assert await app.targets.enable(ORIGIN) == 1, "also what was held before that"
    await app.tick()
    assert there.ids == [id]


async def test_a_destination_that_is_disabled_while_it_is_probed_stays_disabled(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app, person = await duly(channels={"webhook": there}), await duly()
    await parked(app, clock, there)
    await waiting(app, clock, 2)
    there.outcome = Delivered()
    there.may_answer.clear()
    clock.advance(MINUTE)
    tick = asyncio.create_task(app.tick())
    await until(lambda: there.events, "the probe is under way")
    await person.targets.disable(ORIGIN)
    there.may_answer.set()
    await tick
    assert await is_parked(app)
    assert len(there.events) == 1
    assert await person.targets.enable(ORIGIN) == 1


async def test_a_tick_alone_probes_a_parked_destination_and_releases_its_events(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    """As a cron job does, which is a new process each time."""
    await parked(await duly(channels={"webhook": there}), clock, there)
    ids = await waiting(await duly(channels={"webhook": there}), clock, 5)
    clock.advance(MINUTE)
    await (await duly(channels={"webhook": there})).tick()
    assert len(there.events) == 1
    there.outcome = Delivered()
    clock.advance(MINUTE)
    await (await duly(channels={"webhook": there})).tick()
    app = await duly()
    assert await all_in(app, Status.COMPLETED) == sorted(ids)


async def test_a_running_worker_probes_a_parked_destination_and_releases_its_events(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app = await duly(channels={"webhook": there}, poll_interval="20ms")
    async with working(app):
        await many_due(app, clock, webhook(URL), 10, retry=PATIENT)
        await until(lambda: is_parked(app), "it is parked")
        ids = [(await one_due(app, clock, webhook(URL))).id for _ in range(200)]

        async def all_wait() -> bool:
            return await app.targets.waiting(ORIGIN) == 200

        await until(all_wait, "all are held")
        there.outcome = Delivered()
        clock.advance(30 * SECOND)

        async def all_done() -> bool:
            return set(ids) <= set(await all_in(app, Status.COMPLETED))

        await until(all_done, "all are delivered")
    delivered = [id for id in there.ids if id in set(ids)]
    assert len(delivered) == 200, "each once"


# -- a worker that dies


async def test_a_worker_that_dies_with_a_probe_leaves_nothing_stuck(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app, dying = await duly(channels={"webhook": there}), await duly(channels={"webhook": there})
    await parked(app, clock, there)
    ids = await waiting(app, clock, 3)
    clock.advance(MINUTE)
    assert await dying.store.due_probes(30 * SECOND, 600 * SECOND)
    [probe] = await dying.store.claim_probe("default", ORIGIN, ["webhook"], "gone", LEASE)  # and the lights go out
    assert probe.id == ids[0]
    there.outcome = Delivered()
    for _ in range(3):
        clock.advance(MINUTE)
        await app.tick()
    assert await all_in(app, Status.COMPLETED) == sorted(ids)
    assert await acts(app, ids[0]) == ["held", "interrupted", "delivered"]


async def test_a_worker_that_dies_while_releasing_events_leaves_nothing_stuck(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app, dying = await duly(channels={"webhook": there}), await duly()
    await parked(app, clock, there)
    ids = await waiting(app, clock, 5)
    there.outcome = Delivered()
    await dying.store.unpark("default", ORIGIN)
    await dying.store.release_parked("default", ORIGIN, ORIGIN, 2, "gone")  # and here the lights go out
    await app.tick()
    assert await all_in(app, Status.COMPLETED) == sorted(ids)


async def test_a_probe_that_is_no_answer_leaves_its_event_like_any_other(
    duly: OpenDuly, clock: ManualClock, there: Destination
) -> None:
    app = await duly(channels={"webhook": there}, poll_interval="10ms")
    await parked(app, clock, there)
    [id] = await waiting(app, clock, retry=PATIENT)

    async def broken(event: Event) -> Outcome:
        raise RuntimeError("a bug")

    async def has_failed() -> bool:
        return (await app.events.get(id)).attempts == 1

    async def is_held() -> bool:
        return (await app.events.get(id)).held == HELD

    there.deliver, good = broken, there.deliver  # type: ignore[method-assign]
    async with working(app):
        clock.advance(30 * SECOND)
        await until(has_failed, "the probe has failed")
        there.deliver = good  # type: ignore[method-assign]
        clock.advance(40 * SECOND)  # when it is tried again, and before the next probe
        await until(is_held, "it is held")
    assert there.events == []


# -- what people do to what is held


async def test_an_event_held_for_a_destination_can_be_cancelled(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    first, second = await waiting(app, clock, 2)
    await app.events.cancel(first)
    there.outcome = Delivered()
    clock.advance(MINUTE)
    await app.tick()
    assert there.ids == [second]
    cancelled = await app.events.get(first)
    assert (cancelled.status, cancelled.held, cancelled.ready) == (Status.CANCELLED, None, None)


async def test_an_event_held_for_a_destination_can_be_moved_and_is_never_early(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    first, second = await waiting(app, clock, 2)
    later = clock.now() + HOUR
    await app.events.reschedule(first, later)
    there.outcome = Delivered()
    clock.advance(MINUTE)
    await app.tick()
    assert there.ids == [second]
    clock.set(later)
    await app.tick()
    assert there.ids == [second, first]


async def test_a_timer_that_is_put_anew_while_it_is_held_is_delivered_once(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    [id] = await waiting(app, clock, key="k")
    there.outcome = Delivered()
    moved = await app.at(clock.now(), "cart.abandoned", "anew", key="k", target=webhook("https://other.example/in"))
    assert moved.id == id
    await app.tick()
    assert [(event.id, event.payload) for event in there.events] == [(id, "anew")]
    await app.targets.enable(ORIGIN)
    await app.tick()
    clock.advance(DAY)
    await app.tick()
    assert there.ids == [id]
    assert (await app.events.get(id)).status is Status.COMPLETED


async def test_a_dead_letter_that_is_replayed_is_held_like_any_other(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    letter, other = (await all_in(app, Status.FAILED))[:2]
    await app.events.replay(letter)
    await app.events.discard(other)
    await app.tick()
    assert (await app.events.get(letter)).held == HELD
    there.outcome = Delivered()
    clock.advance(MINUTE)
    await app.tick()
    assert there.ids == [letter]


# -- schedules


async def test_an_event_of_a_paused_schedule_and_a_parked_destination_waits_for_both(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    await app.every("digest", every("1h"), "digest.send", target=webhook(URL))
    clock.advance(HOUR)
    await app.targets.disable(ORIGIN)
    await app.tick()
    [held] = [event for event in await app.events.find(InStatus(Status.PENDING)) if event.held]
    await app.schedules.pause("digest")
    there.outcome = Delivered()
    await app.targets.enable(ORIGIN)
    await app.tick()
    assert there.events == [], "the schedule is paused"
    assert (await app.events.get(held.id)).held == "paused"
    await app.schedules.resume("digest")
    await app.tick()
    assert there.ids == [held.id]


async def test_deleting_a_schedule_cancels_its_events_held_for_a_destination(
    app: Duly, clock: ManualClock, there: Destination
) -> None:
    await parked(app, clock, there)
    await app.every("digest", every("1h"), "digest.send", target=webhook(URL))
    clock.advance(HOUR)
    await app.targets.disable(ORIGIN)
    await app.tick()
    await app.schedules.delete("digest")
    there.outcome = Delivered()
    assert await app.targets.enable(ORIGIN) == 0
    await app.tick()
    assert there.events == []


async def test_a_schedule_goes_on_while_its_target_is_parked(app: Duly, clock: ManualClock, there: Destination) -> None:
    await app.every("digest", every("1h"), "digest.send", target=webhook(URL), misfire={"policy": "all"})
    await app.targets.disable(ORIGIN)
    for _ in range(3):
        clock.advance(HOUR)
        await app.tick()
    assert await app.targets.waiting(ORIGIN) == 3
    there.outcome = Delivered()
    await app.targets.enable(ORIGIN)
    await app.tick()
    assert len(there.events) == 3
    assert [event.due for event in there.events] == sorted(event.due for event in there.events)


class Counting(Destination):
    """Tells how many were under way at once."""

    def __init__(self) -> None:
        super().__init__(Delivered())
        self.under_way = self.most = 0

    async def deliver(self, event: Event) -> Outcome:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        return await super().deliver(event)


async def test_released_events_keep_to_the_limit_of_their_schedule(duly: OpenDuly, clock: ManualClock) -> None:
    there = Counting()
    app = await duly(channels={"webhook": there})
    await app.every(
        "digest", every("1h"), "digest.send", target=webhook(URL), misfire={"policy": "all"}, max_concurrent=2
    )
    await app.targets.disable(ORIGIN)
    for _ in range(7):
        clock.advance(HOUR)
        await app.tick()
    assert there.events == []
    await app.targets.enable(ORIGIN)
    for _ in range(9):
        await app.tick()
    assert len(there.events) == len(set(there.ids)) == 7
    assert there.most <= 2
