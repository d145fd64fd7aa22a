from datetime import timedelta

import pytest

from duly import Duly, InStatus, Status, Timer
from tests.crash.conftest import Supervise
from tests.crash.consistency import Comparison


@pytest.mark.timeout(300)
async def test_a_handler_that_kills_its_process_reaches_the_dead_letters_alone(app: Duly, supervise: Supervise) -> None:
    timers = [Timer(timedelta(), "awaited") for _ in range(201)]
    timers[100] = Timer(timedelta(), "awaited", "lethal")
    killer = (await app.add_many(timers))[100]

    supervisor = supervise(lease="4s", concurrency=20, batch_size=50, poll_interval="500ms")
    await supervisor.finish(patience=180)

    comparison = await Comparison.of(app)
    event, history = comparison.events[killer], comparison.history[killer]
    assert [dead.id for dead in await app.events.find(InStatus(Status.FAILED))] == [killer]
    assert (event.interruptions, event.attempts) == (5, 0)
    assert event.last_error == "interrupted 5 times: each time, its worker stopped before the event had ended"
    assert [entry.act for entry in history] == ["interrupted"] * 5 + ["failed"]
    assert history[-1].detail == event.last_error
    assert [entry.worker for entry in history[:5]] == list(supervisor.killed), "each worker that it killed is told once"

    others = [other for other in comparison.events.values() if other.id != killer]
    assert [other.status for other in others] == [Status.COMPLETED] * 200
    struck = [entry for other in others for entry in comparison.history[other.id] if entry.act == "interrupted"]
    assert {entry.worker for entry in struck} == {history[0].worker}, "it had company only when nobody suspected it"
    assert {other.interruptions for other in others} == {0, 1}
