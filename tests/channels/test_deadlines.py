"""Requests end in time, and nothing else does."""

import asyncio

import pytest

from duly.channels.http.deadlines import CHECK_INTERVAL, Deadlines, PendingRequest
from duly.channels.http.guard import Dial


async def wait(deadlines: Deadlines, silence: float, total: float, dial: Dial | None = None) -> float | None:
    """As the sender does; for how long it had waited."""
    underway = deadlines.begin(dial or Dial(), silence, total)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if not underway.was_ended_here():
            raise
        return underway.exceeded
    finally:
        deadlines.end(underway)
    raise AssertionError


@pytest.mark.parametrize(("silence", "total", "exceeded"), [(0.01, 5.0, 0.01), (5.0, 0.02, 0.02)])
async def test_a_request_that_takes_too_long_is_ended_and_says_which_limit_it_exceeded(
    silence: float, total: float, exceeded: float
) -> None:
    assert await wait(Deadlines(), silence, total) == exceeded


async def test_after_a_deadline_the_task_goes_on_as_if_nothing_had_been_cancelled() -> None:
    deadlines = Deadlines()
    assert await wait(deadlines, 0.01, 5) == await wait(deadlines, 0.01, 5) == 0.01
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_cancellation_from_outside_is_not_taken_for_a_deadline() -> None:
    task = asyncio.create_task(wait(Deadlines(), 5, 5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_from_outside_counts_also_where_a_deadline_has_passed() -> None:
    made: list[PendingRequest] = []

    class Seen(Deadlines):
        def begin(self, dial: Dial, silence: float, total: float) -> PendingRequest:
            made.append(super().begin(dial, silence, total))
            return made[-1]

    task = asyncio.create_task(wait(Seen(), 0.01, 5))
    await asyncio.sleep(0)
    made[0].look(asyncio.get_running_loop().time() + 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def exceeded(underway: PendingRequest, at: float) -> float | None:
    underway.look(at)
    return underway.exceeded


async def test_the_limit_of_silence_counts_from_the_connection_on() -> None:
    dial = Dial()
    underway = Deadlines().begin(dial, 1.0, 9.0)
    dial.since += 3
    assert exceeded(underway, at=dial.began + 3.9) is None
    dial.since -= 3
    assert exceeded(underway, at=dial.began + 1.1) == 1.0
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)
    assert underway.was_ended_here()


async def test_deadlines_are_no_longer_checked_when_no_request_is_under_way() -> None:
    deadlines = Deadlines()
    deadlines.end(deadlines.begin(Dial(), 5, 5))
    handles = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    assert any("Deadlines._look" in repr(handle) for handle in handles)
    await asyncio.sleep(2 * CHECK_INTERVAL)
    assert not any("Deadlines._look" in repr(handle) for handle in handles if not handle.cancelled())
