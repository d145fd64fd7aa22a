"""Keys of timers that have fired, and debounced timers, as callers of Duly meet them."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest

from duly import AlreadyFired, Conflict, Duly, Event, Invalid, PutChange, Rejected, Status, Timer
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MINUTE, START
from tests.stores.rows import ask
from tests.worker.running_worker import until


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly()

    @app.on("greet")
    async def greet(event: Event) -> Rejected | None:
        return Rejected("nobody is there") if event.payload == "fail" else None

    return app


async def fired(app: Duly, payload: Any = None, **options: Any) -> Event:
    """An event under the key ``k`` that has fired."""
    event = await app.at(await app.now(), "greet", payload, **({"key": "k"} | options))
    await app.tick()
    return await app.events.get(event.id)


async def test_at_returns_the_event_for_a_repeat_and_raises_for_another_due_time(app: Duly) -> None:
    done = await fired(app)
    assert await app.at(START, "greet", key="k") == done
    with pytest.raises(AlreadyFired, match=r"the key 'k' has fired already.*is COMPLETED.*once=False") as refused:
        await app.at(START + HOUR, "greet", key="k")
    assert refused.value.event == done
    assert isinstance(refused.value, Conflict)
    assert len(await app.events.find()) == 1


async def test_after_always_raises_for_a_key_that_has_fired(app: Duly) -> None:
    await app.after("0s", "greet", key="k")
    await app.tick()
    for delay in ("0s", "30d"):
        with pytest.raises(AlreadyFired):
            await app.after(delay, "greet", key="k")
    assert (await app.put(timedelta(days=30), "greet", key="k")).change is PutChange.ALREADY_FIRED


async def test_put_tells_what_it_has_changed(app: Duly, clock: ManualClock) -> None:
    told = [await app.put(due, "greet", key="k") for due in (START + HOUR, START + HOUR, START)]
    await app.tick()
    told += [await app.put(due, "greet", key="k") for due in (START, START + HOUR)]
    told += [await app.put(START + HOUR, "greet", key="k", once=False)]
    assert [one.change.value for one in told] == [
        "created", "unchanged", "moved", "unchanged", "already_fired", "created",
    ]  # fmt: skip
    assert len({one.event.id for one in told[:-1]}) == 1


async def test_a_month_later_the_call_does_not_pass_in_silence(app: Duly, clock: ManualClock) -> None:
    await fired(app)
    clock.advance(30 * DAY)
    with pytest.raises(AlreadyFired):
        await app.at(clock.now() + HOUR, "greet", key="k")
    event = await app.at(clock.now() + HOUR, "greet", key="k", once=False)
    clock.advance(HOUR)
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.COMPLETED
    assert (await app.events.get("k")).id == event.id


async def test_adding_many_returns_the_old_ids_of_keys_that_have_fired(app: Duly) -> None:
    done = await fired(app)
    many = [Timer(START + HOUR, "greet", key=key) for key in ("k", "new")]
    ids = await app.add_many([*many, Timer(START + HOUR, "greet")])
    assert (ids[0], len(set(ids))) == (done.id, 3)
    again = await app.add_many([Timer(START + HOUR, "greet", key="k", once=False)])
    assert again != [done.id]


async def test_another_type_under_an_open_key_is_a_conflict_that_names_both(app: Duly) -> None:
    first = await app.at(START + HOUR, "greet", key="k")
    both = r"the key 'k' belongs to event .* of type 'greet': a timer of type 'bill' needs another key"
    with pytest.raises(Conflict, match=both):
        await app.at(START + HOUR, "bill", key="k")
    with pytest.raises(Conflict, match=both):
        await app.add_many([Timer(START, "other"), Timer(START, "bill", key="k")])
    assert await app.events.find() == [first], "all or none"


async def test_a_dead_letter_whose_key_is_taken_is_a_conflict_that_names_the_holder(app: Duly) -> None:
    dead = await fired(app, "fail")
    assert dead.status is Status.FAILED
    holder = await app.at(START + HOUR, "greet", key="k", once=False)
    with pytest.raises(Conflict, match=rf"its key 'k' is taken by event {holder.id}, which is PENDING"):
        await app.events.replay(dead.id)
    assert (await app.events.replay_all()).left_alone == 1
    assert await app.events.get(dead.id) == dead
    await app.cancel("k")
    assert (await app.events.replay(dead.id)).status is Status.PENDING
    assert (await app.events.get("k")).id == dead.id


async def test_a_call_in_a_transaction_that_is_rolled_back_leaves_the_key_fired(app: Duly) -> None:
    done = await fired(app)
    with contextlib.suppress(ZeroDivisionError):
        async with app.transaction() as tx:
            assert (await app.put(START + HOUR, "greet", key="k", once=False, transaction=tx)).change == "created"
            raise ZeroDivisionError
    assert await app.events.find() == [done]
    assert (await app.events.get("k")) == done
    async with app.transaction() as tx:
        with pytest.raises(AlreadyFired):
            await app.at(START + HOUR, "greet", key="k", transaction=tx)
        await app.at(START + HOUR, "greet", key="other", transaction=tx)
    assert len(await app.events.find()) == 2


async def test_synchronous_code_has_the_same_options(app: Duly) -> None:
    done = await fired(app)

    def call() -> list[str]:
        with pytest.raises(AlreadyFired):
            app.sync.after("1h", "greet", key="k")
        told = [
            app.sync.put(START + HOUR, "greet", key="k"),
            app.sync.put(START + HOUR, "greet", key="k", once=False),
            app.sync.put(type="greet", key="d", quiet="1h", max_wait=timedelta(hours=2)),
        ]
        return [one.change.value for one in told]

    assert await asyncio.to_thread(call) == ["already_fired", "created", "created"]
    assert await app.events.get(done.id) == done


# -- debounce


async def test_calls_with_quiet_become_one_event(app: Duly, clock: ManualClock) -> None:
    for _ in range(5):
        await app.put(type="greet", payload=7, key="k", quiet="24h", max_wait="7d")
        clock.advance(HOUR)
    [event] = await app.events.find()
    assert (event.due, event.first_asked, event.quiet, event.max_wait) == (
        START + 4 * HOUR + DAY, START, DAY, 7 * DAY,
    )  # fmt: skip
    clock.advance(DAY)
    await app.tick()
    assert (await app.events.get("k")).status is Status.COMPLETED
    again = await app.put(type="greet", key="k", quiet="24h")
    assert (again.change, again.event.max_wait) == ("created", None), "quiet implies once=False"


async def test_activity_while_the_event_runs_fires_once_more(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly()
    seen: list[Any] = []

    @app.on("index")
    async def index(event: Event) -> None:
        seen.append((event.payload, event.key))
        if len(seen) == 1:
            await app.put(type="index", payload="what came meanwhile", key="doc-7", quiet="1m")

    await app.put(type="index", payload="first", key="doc-7", quiet="1m")
    clock.advance(MINUTE)
    await app.tick()
    assert seen == [("first", "doc-7")]
    clock.advance(MINUTE)
    await app.tick()
    assert seen[1:] == [("what came meanwhile", "doc-7")]
    assert {event.status for event in await app.events.find()} == {Status.COMPLETED}


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ({}, ["due"]),
        ({"quiet": "1h"}, ["key"]),
        ({"due": START, "quiet": "1h", "key": "k"}, ["quiet"]),
        ({"due": START, "max_wait": "1h", "key": "k"}, ["max_wait"]),
        ({"max_wait": "1h", "key": "k"}, ["due", "max_wait"]),
        ({"quiet": "2h", "max_wait": "1h", "key": "k"}, ["max_wait"]),
        ({"quiet": "soon", "max_wait": 0, "key": "k"}, ["quiet", "max_wait"]),
        ({"due": START, "once": "no", "key": "k"}, ["once"]),
        ({"quiet": "1m", "key": "k", "once": True}, ["once"]),
    ],
)
async def test_what_contradicts_itself_is_refused(app: Duly, options: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        await app.put(type="greet", **options)
    assert [problem.path for problem in refused.value.problems] == paths
    with pytest.raises(Invalid) as many:
        await app.add_many([Timer(**{"due": None, "type": "greet", **options})])
    assert [problem.path for problem in many.value.problems] == [f"[0].{path}" for path in paths]


# -- memory


async def test_the_memory_of_keys_is_a_setting(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly(key_memory="1h")
    app.on("greet")(lambda event: None)
    await fired(app)
    clock.advance(timedelta(minutes=59))
    assert (await app.put(clock.now(), "greet", key="k")).change == "already_fired"
    clock.advance(MINUTE)
    assert (await app.put(clock.now(), "greet", key="k")).change == "created"


async def test_a_tick_forgets_keys(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly(key_memory="1h")
    app.on("greet")(lambda event: None)
    await app.store.delete_ended([(await fired(app)).id])
    await app.tick()
    assert await remembered(app) == 1
    clock.advance(HOUR)
    await app.tick()
    assert await remembered(app) == 0


async def test_a_worker_forgets_keys_beside_its_work(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly(key_memory="1h", poll_interval="10ms")
    app.on("greet")(lambda event: None)
    await app.store.delete_ended([(await fired(app)).id])
    clock.advance(HOUR)
    working = asyncio.create_task(app.run(signals=False))
    await until(lambda: forgotten(app), "the key is forgotten")
    app.stop()
    await working


async def forgotten(app: Duly) -> bool:
    return await remembered(app) == 0


async def remembered(app: Duly) -> int:
    return int(await ask(app.store, "SELECT count(*) FROM duly.fired_keys"))


async def test_a_remembered_key_tells_what_is_left_of_its_event(app: Duly) -> None:
    done = await fired(app, {"secret": 7})
    await app.store.delete_ended([done.id])
    left = await app.at(START, "greet", key="k")
    assert (left.id, left.status, left.executed, left.payload) == (done.id, Status.COMPLETED, START, None)
    assert await app.events.get("k") == left
    assert await app.cancel("k") == "fired"
    with pytest.raises(Conflict, match="it is COMPLETED"):
        await app.events.reschedule("k", START + DAY)
    with pytest.raises(AlreadyFired):
        await app.at(START + DAY, "greet", key="k")
