from datetime import timedelta

from duly import Duly, Status, Timer
from tests.crash.conftest import Supervise
from tests.crash.consistency import Comparison


async def test_three_processes_deliver_a_hundred_events_once_each(app: Duly, supervise: Supervise) -> None:
    supervisor = supervise(concurrency=4, batch_size=4)
    workers = [supervisor.start() for _ in range(3)]
    await supervisor.started(*workers)
    ids = await app.add_many(Timer(timedelta(), "shared") for _ in range(100))

    def taking_part() -> set[str]:
        return {effect["worker"] for effect in supervisor.journal.of("effect")}

    await supervisor.until(lambda: taking_part() == set(workers), "all three take part")
    supervisor.release()
    await supervisor.until(lambda: len(supervisor.journal.of("effect")) >= 100, "all are delivered")
    await supervisor.stop(*workers)

    comparison = await Comparison.of(app)
    assert sorted(effect["event"] for effect in supervisor.journal.of("effect")) == sorted(ids)
    assert len(comparison.in_status(Status.COMPLETED)) == 100
    comparison.every_claim_has_one_end()
    assert {event.version for event in comparison.events.values()} == {2}, "claimed once each"
