"""Tasks for Celery: how they are called, where they wait, and that a real worker runs them under the event's id."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
from redis import Redis

from duly import Status, Timer, every, to
from duly.testing import ManualClock
from tests.api.sending import one_due
from tests.channels.brokers_under_test import BrokerUnderTest, CeleryOverRabbit, CeleryOverRedis, RedisUnderTest
from tests.conftest import OpenDuly
from tests.make import START

TASKS = """
import json, os
from celery import Celery
from redis import Redis

app = Celery("shop", broker=os.environ["BROKER"])
done = Redis.from_url(os.environ["RESULTS"])

@app.task(bind=True, name="shop.remind")
def remind(self, *args, **kwargs):
    said = {name: value for name, value in vars(self.request).items() if name.startswith("duly_")}
    done.rpush(os.environ["LIST"], json.dumps([self.request.id, args, kwargs, said]))
"""


@pytest.mark.parametrize("over", ["celery over redis", "celery over rabbitmq"])
async def test_a_payload_becomes_the_arguments_of_the_task(
    open_app: OpenDuly, clock: ManualClock, celery_over: Callable[[str], BrokerUnderTest], over: str
) -> None:
    celery = celery_over(over)
    app, place = await open_app(**celery.settings()), await celery.new_place()
    calls: list[tuple[Any, list[Any], dict[str, Any]]] = [
        (None, [], {}),
        ({}, [], {}),
        ({"user": 7, "ü": [1]}, [], {"user": 7, "ü": [1]}),
        ([], [], {}),
        ([1, None, {"a": 2}], [1, None, {"a": 2}], {}),
        ("x", ["x"], {}),
        (0, [0], {}),
        (False, [False], {}),
    ]
    await app.add_many([Timer(clock.now(), "t", payload, target=celery.target(place)) for payload, _, _ in calls])
    await app.tick()
    assert [message.said for message in await celery.received(place)] == [[args, kwargs] for _, args, kwargs in calls]


async def test_a_task_knows_what_it_is_for(
    open_app: OpenDuly, clock: ManualClock, celery_over: Callable[[str], BrokerUnderTest]
) -> None:
    celery = celery_over("celery over redis")
    app, place = await open_app(**celery.settings()), await celery.new_place()
    event = await one_due(app, clock, celery.target(place), tenant="acme", correlation_id="c1")
    clock.advance(milliseconds=20)
    await app.tick()
    [message] = await celery.received(place)
    assert (message.headers["task"], message.headers["id"]) == ("shop.remind", event.id)
    assert {name: value for name, value in message.headers.items() if name.startswith("duly_")} == {
        "duly_type": "cart.abandoned",
        "duly_tenant": "acme",
        "duly_due_at": "2026-01-01T00:00:00Z",
        "duly_fired_at": "2026-01-01T00:00:00.020000Z",
        "duly_attempt": "1",
        "duly_correlation_id": "c1",
    }


async def test_a_task_without_a_queue_goes_to_celerys_default_queue(
    open_app: OpenDuly, clock: ManualClock, celery_over: Callable[[str], BrokerUnderTest]
) -> None:
    celery = celery_over("celery over redis")
    app = await open_app(**celery.settings())
    event = await one_due(app, clock, to.celery("shop.remind"))
    await app.tick()
    assert event.id in [message.id for message in await celery.received("celery")]


async def test_a_queue_that_is_not_there_is_made_as_celery_makes_it(
    open_app: OpenDuly, clock: ManualClock, celery_over: Callable[[str], CeleryOverRabbit]
) -> None:
    celery = celery_over("celery over rabbitmq")
    app, places = await open_app(**celery.settings()), [f"new-{uuid4().hex[:8]}" for _ in range(3)]
    timers = [Timer(clock.now(), "t", n, target=celery.target(places[n % 3])) for n in range(9)]
    ids = await app.add_many(timers)
    await app.tick()
    for number, place in enumerate(places):
        assert [message.id for message in await celery.received(place)] == ids[number::3]
        async with await aio_pika.connect(celery.url) as connection:
            await (await connection.channel()).declare_queue(place, durable=True)  # refused, were it another kind


async def test_a_queue_of_another_kind_is_taken_as_it_is(
    open_app: OpenDuly, clock: ManualClock, celery_over: Callable[[str], CeleryOverRabbit]
) -> None:
    celery, place = celery_over("celery over rabbitmq"), f"priority-{uuid4().hex[:8]}"
    async with await aio_pika.connect(celery.url) as connection:
        await (await connection.channel()).declare_queue(place, durable=True, arguments={"x-max-priority": 10})
    app = await open_app(**celery.settings())
    event = await one_due(app, clock, celery.target(place))
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.COMPLETED
    [message] = await celery.messages(place)
    assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT


async def test_the_environment_of_celery_does_not_lead_tasks_elsewhere(
    open_app: OpenDuly,
    clock: ManualClock,
    celery_over: Callable[[str], BrokerUnderTest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://nowhere.invalid/0")
    monkeypatch.setenv("CELERY_BROKER_WRITE_URL", "redis://nowhere.invalid/0")
    celery = celery_over("celery over redis")
    app, place = await open_app(**celery.settings()), await celery.new_place()
    await one_due(app, clock, celery.target(place))
    await app.tick()
    assert len(await celery.received(place)) == 1


@pytest.mark.parametrize("over", ["celery over redis", "celery over rabbitmq"])
async def test_a_real_worker_runs_what_is_due(
    open_app: OpenDuly,
    clock: ManualClock,
    celery_over: Callable[[str], BrokerUnderTest],
    redis_broker: RedisUnderTest,
    tmp_path: Path,
    over: str,
) -> None:
    """Once for a timer, as with an ETA; by a schedule, as with beat."""
    celery, place = celery_over(over), f"real-{uuid4().hex[:8]}"
    app = await open_app(**celery.settings())
    once = await app.at(START, "remind", {"user": 7}, target=to.celery("shop.remind", queue=place))
    await app.every("digest", every("1h"), "digest", ["daily"], target=to.celery("shop.remind", queue=place))
    await app.tick()
    clock.advance(hours=1)
    await app.tick()
    (tmp_path / "shop.py").write_text(TASKS)
    with a_worker(tmp_path, place, BROKER=celery.url, RESULTS=redis_broker.url, LIST=f"{place}-done"):
        first, second = results(redis_broker.url, f"{place}-done", 2)
    assert first[:3] == [once.id, [], {"user": 7}]
    assert first[3]["duly_due_at"] == "2026-01-01T00:00:00Z"
    assert second[1:3] == [["daily"], {}]
    fired = await app.events.get(second[0])
    assert (fired.type, fired.status, second[3]["duly_due_at"]) == ("digest", Status.COMPLETED, "2026-01-01T01:00:00Z")


@pytest.fixture
def celery_over(request: pytest.FixtureRequest) -> Callable[[str], BrokerUnderTest]:
    def celery_over(name: str) -> BrokerUnderTest:
        if name == "celery over rabbitmq":
            return CeleryOverRabbit(request.getfixturevalue("rabbit_broker").server)
        return CeleryOverRedis(request.getfixturevalue("redis_broker").server)

    return celery_over


def a_worker(folder: Path, queue: str, **environment: str) -> "subprocess.Popen[bytes]":
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "error"]
    return Worker(
        [sys.executable, "-m", "celery", "-A", "shop", "worker", "--pool", "solo", "-Q", queue, *quiet],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "C_FORCE_ROOT": "1", **environment},
    )


class Worker(subprocess.Popen[bytes]):
    """Ends when it is no longer needed."""

    def __exit__(self, *exits: Any) -> None:
        self.kill()
        super().__exit__(*exits)


def results(url: str, name: str, many: int) -> Iterator[Any]:
    """What the tasks have said, each as soon as it is there."""
    with Redis.from_url(url, socket_timeout=None) as server:
        deadline = time.monotonic() + 60
        for _ in range(many):
            found = server.blpop([name], timeout=deadline - time.monotonic())
            assert found, "the worker has not run it"
            yield json.loads(found[1])
