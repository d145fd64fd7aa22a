"""Wishes for one key, in the order in which they were asked for, whatever the order in which they come."""

import asyncio
import random
from typing import Any

import pytest

from duly.records.event import Event, Status
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from tests.conftest import AnyStore, OpenStore
from tests.make import HOUR, LANE, LEASE, MINUTE, START, completed, make_new
from tests.stores.rows import event_with_key, spelled


async def put(store: AnyStore, asked: int | None, **fields: Any) -> Event:
    [(event, _)] = await store.put([make_new(key="k", asked=asked, **fields)])
    assert isinstance(event, Event)
    return event


async def acts(store: AnyStore, event: Event) -> list[str]:
    return [entry.act for entry in await store.history(event.id)]


async def test_a_newer_command_moves_a_timer_and_an_older_one_does_not(store: AnyStore) -> None:
    first = await put(store, 5, due=START + HOUR)
    assert (await put(store, 7, due=START + 2 * HOUR)).due == START + 2 * HOUR
    for older in (6, 5, 1):
        assert (await put(store, older, due=START + MINUTE)).due == START + 2 * HOUR
    assert await acts(store, first) == ["moved"]


async def test_a_redelivered_command_changes_nothing_whoever_has_changed_the_timer_since(store: AnyStore) -> None:
    await put(store, 5, due=START + HOUR)
    moved = await put(store, None, due=START + 2 * HOUR)
    assert moved.due == START + 2 * HOUR
    assert await put(store, 5, due=START + HOUR) == moved
    assert (await put(store, 6, due=START + 3 * HOUR)).due == START + 3 * HOUR


async def test_a_newer_command_counts_even_if_it_changes_nothing(store: AnyStore) -> None:
    """To move a timer away and back again: the middle one, late, must not undo the last."""
    first = await put(store, 1, due=START + HOUR)
    assert await put(store, 3, due=START + HOUR) == first
    assert await put(store, 2, due=START + MINUTE) == first
    assert await acts(store, first) == [], "nothing was moved"


async def test_every_field_of_an_older_command_is_ignored(store: AnyStore) -> None:
    newer = await put(store, 2, due=START + HOUR, correlation_id="new", payload=2)
    assert await put(store, 1, due=START + HOUR, correlation_id="old", payload=1) == newer


async def test_a_timer_that_was_put_without_an_order_is_moved_by_any_command(store: AnyStore) -> None:
    await put(store, None, due=START + HOUR)
    assert (await put(store, 5, due=START + 2 * HOUR)).due == START + 2 * HOUR
    assert (await put(store, 4, due=START + MINUTE)).due == START + 2 * HOUR


async def test_a_timer_that_has_started_or_ended_is_left_alone_by_a_newer_command(
    store: AnyStore, clock: ManualClock
) -> None:
    await put(store, 1)
    [claimed] = await store.claim("w1", {LANE: 10}, LEASE)
    assert (await put(store, 2, due=START + HOUR)).due == START
    await store.settle([completed(claimed)], "w1")
    assert (await put(store, 3, due=START + HOUR)).due == START
    assert await acts(store, claimed) == ["delivered"]


async def test_a_redelivered_command_revives_no_cancelled_timer(store: AnyStore) -> None:
    first = await put(store, 5, due=START + HOUR)
    await Events(store).cancel(first.id)
    cancelled = await Events(store).get(first.id)
    for older in (5, 4):
        assert await put(store, older, due=START + HOUR) == cancelled
    assert await store.by_key("default", "k") == cancelled


async def test_a_newer_command_after_a_cancel_is_a_new_timer(store: AnyStore) -> None:
    first = await put(store, 5, due=START + HOUR)
    await Events(store).cancel(first.id)
    second = await put(store, 6, due=START + HOUR)
    assert (second.status, second.id != first.id) == (Status.PENDING, True)
    assert await put(store, 5, due=START + MINUTE) == second
    await Events(store).cancel(second.id)
    assert (await put(store, 6, due=START + HOUR)).status is Status.CANCELLED
    assert (await put(store, 5, due=START + HOUR)).status is Status.CANCELLED
    assert (await put(store, None, due=START + HOUR)).status is Status.PENDING, "who gives no order may always"


async def test_a_command_whose_timer_was_cancelled_does_not_move_a_timer_put_since(store: AnyStore) -> None:
    await Events(store).cancel((await put(store, 5, due=START + HOUR)).id)
    since = await put(store, None, due=START + 2 * HOUR)
    assert await put(store, 5, due=START + HOUR) == since
    assert await acts(store, since) == []
    assert (await put(store, 6, due=START + HOUR)).id == since.id


async def test_a_cancelled_timer_does_not_affect_others_of_its_batch(store: AnyStore) -> None:
    cancelled = await put(store, 5)
    await Events(store).cancel(cancelled.id)
    others = [make_new(key=key, asked=5) for key in ("a", "z")]
    added = await store.put([others[0], make_new(key="k", asked=5), others[1]])
    assert [(one.event.id, one.change) for one in added] == [
        (others[0].id, "created"),
        (cancelled.id, "unchanged"),
        (others[1].id, "created"),
    ]


@pytest.mark.broken_rows("its rows are written by hand")
async def test_a_command_redelivered_during_a_cancel_revives_nothing(opened: OpenStore) -> None:
    one, other = await opened(), await opened()
    await put(one, 5, due=START + HOUR)
    async with one.begin() as tx:
        await tx.execute(spelled(one, "UPDATE duly.events SET status = 'CANCELLED', ready = NULL WHERE key = 'k'"))
        again = asyncio.create_task(put(other, 5, due=START + HOUR))
        await asyncio.sleep(0.3)  # it waits for the row, or for the file
        assert not again.done()
    cancelled = await again
    assert cancelled.status is Status.CANCELLED
    assert await one.by_key("default", "k") == cancelled


async def test_many_commands_in_any_order_from_several_processes_end_with_the_newest(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(3)]
    orders = list(range(1, 61))
    random.shuffle(orders)

    async def put_some(store: AnyStore, some: list[int]) -> None:
        for asked in some:
            await put(store, asked, due=START + asked * MINUTE)

    await asyncio.gather(*(put_some(store, orders[number::3]) for number, store in enumerate(stores)))
    event = await event_with_key(stores[0], "k")
    assert event.due == START + 60 * MINUTE
