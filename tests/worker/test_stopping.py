import signal
from datetime import timedelta

import pytest

from duly import Duly, InStatus, Status, Timer
from tests.crash.conftest import Supervise
from tests.worker.running_worker import until

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stopped_worker_ends_what_it_began_and_gives_back_the_rest(
    app: Duly, supervise: Supervise, number: signal.Signals
) -> None:
    quick = await app.add_many(Timer(-2 * HOUR, "shared", "quick") for _ in range(100))
    slow = await app.add_many(Timer(-HOUR, "shared") for _ in range(100))
    supervisor = supervise(concurrency=4, batch_size=20, shutdown_grace="60s")
    worker = supervisor.start()

    def started() -> set[str]:
        return {effect["event"] for effect in supervisor.journal.of("effect")} - set(quick)

    async def claimed() -> set[str]:
        return {event.id for event in await app.events.find(InStatus(Status.PROCESSING), limit=1000)}

    async def read_ahead() -> bool:
        return len(started()) == 4 and len(await claimed() - set(quick)) > 4

    async def given_back() -> bool:
        return await claimed() == started()

    await until(read_ahead, "four are under way and more are claimed")
    supervisor.signal(worker, number)
    await until(given_back, "what was not started is given back, while the four go on")
    late = await app.after(-3 * HOUR, "shared")
    supervisor.release()
    await supervisor.ends(worker)

    assert len(started()) == 4, "nothing more was started"
    events = {event.id: event for event in await app.events.find(limit=1000)}
    assert all(events[id].status is Status.COMPLETED for id in {*quick, *started()})
    others = [events[id] for id in {late.id, *slow} - started()]
    assert {(event.status, event.attempts, event.interruptions) for event in others} == {(Status.PENDING, 0, 0)}
    assert all(event.ready == event.due for event in others), "they keep their places"
    assert events[late.id].version == 1, "it was not claimed any more"
    unstarted = [event.id for event in others if event.version > 1]
    assert unstarted
    for id in unstarted:
        [entry] = await app.events.history(id)
        assert (entry.act, entry.detail) == ("given back", "the worker stopped before starting it")


@pytest.mark.parametrize("kind", ["endless", "hung"])  # an async def, and a plain def that nothing can stop
async def test_handlers_that_outlast_the_grace_are_given_back(app: Duly, supervise: Supervise, kind: str) -> None:
    ids = await app.add_many(Timer(-HOUR, kind) for _ in range(3))
    supervisor = supervise(shutdown_grace="500ms")
    worker = supervisor.start()
    await until(lambda: len(supervisor.journal.of("effect")) == 3, "they are under way")
    await supervisor.stop(worker)

    for id in ids:
        event, [entry] = await app.events.get(id), await app.events.history(id)
        assert (event.status, event.attempts, event.interruptions) == (Status.PENDING, 0, 0)
        assert event.ready == event.due, "it keeps its place"
        assert (entry.act, entry.detail) == ("given back", "the worker stopped before it ended")
