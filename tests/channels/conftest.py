import os
import shutil
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from duly import Duly
from duly.channels.http.sender import Sender
from duly.channels.http.webhook import Webhook
from duly.decide.targets.addresses import read_networks
from duly.decide.targets.secrets import SecretKeys
from duly.decide.targets.targets import webhook
from duly.records.event import Outcome
from duly.testing import ManualClock
from tests.brokers import KafkaInside, RabbitServer, Server
from tests.channels.brokers_under_test import (
    LARGEST,
    BrokerUnderTest,
    CeleryOverRabbit,
    CeleryOverRedis,
    KafkaUnderTest,
    NatsUnderTest,
    RabbitUnderTest,
    RedisUnderTest,
)
from tests.conftest import OpenDuly
from tests.make import make_event
from tests.receivers.conftest import healthy, healthy_process, hostile, hostile_process
from tests.receivers.hostile import Hostile

SOON = 10.0
"""Seconds past its timeout within which a delivery ends on any machine, however busy: others would never end."""

__all__ = ["healthy", "healthy_process", "hostile", "hostile_process"]

LOOPBACK = read_networks("127.0.0.0/8")
PATIENT, QUICK = "20s", "300ms"
"""What a receiver gets to answer, however busy the machine; and where it is the point that it does not answer."""

Deliver = Callable[..., Awaitable[Outcome]]


@pytest.fixture
async def sender(hostile: Hostile) -> AsyncIterator[Sender]:
    """Reaches loopback, and trusts the authority of the hostile receiver."""
    sender = Sender(LOOPBACK, tls=ssl.create_default_context(cafile=hostile.authority))
    yield sender
    await sender.close()


@pytest.fixture
def deliver(hostile: Hostile, sender: Sender) -> Deliver:
    """Delivers an event to the hostile receiver as a webhook: ``await deliver("/status/503")``."""
    no_directory: Any = None  # of stored targets: these are URLs
    channel = Webhook(sender, no_directory, SecretKeys("k" * 32))

    async def deliver(path: str, door: str = "open", *, timeout: str = PATIENT, **fields: Any) -> Outcome:
        target = webhook(hostile.url(path, door), timeout=timeout)
        return await channel.deliver(make_event(target=target, **fields))

    return deliver


# -- brokers: each server is started when it is first needed, and shared by the tests of a process

KAFKA = "DULY_TEST_KAFKA_URL"

REAL_KAFKA = pytest.mark.skipif(
    not os.environ.get(KAFKA),
    reason=f"no package has Kafka, and what stands in for it cannot do this: set {KAFKA}=kafka://host:9092",
)
OURS = ("nats", "redis", "rabbitmq", "celery over redis", "celery over rabbitmq")
"""Those whose servers the tests may kill."""

BROKERS = ("nats", "redis", "rabbitmq", "kafka")
BROKERS_AND_CELERY = (*OURS, "kafka")
TRUE_BROKERS = (*BROKERS[:-1], pytest.param("kafka", marks=REAL_KAFKA))
REAL_BROKERS = (*OURS, pytest.param("kafka", marks=REAL_KAFKA))


@pytest.fixture(scope="session")
def nats_broker() -> Iterator[NatsUnderTest]:
    found = NatsUnderTest()
    with found.server:
        yield found


@pytest.fixture(scope="session")
def redis_broker() -> Iterator[RedisUnderTest]:
    found = RedisUnderTest()
    with found.server:
        yield found


@pytest.fixture(scope="session")
def rabbit_server() -> Iterator[RabbitServer]:
    if shutil.which("apt-get") is None and not os.environ.get("CI"):
        pytest.skip("RabbitMQ comes from packages of Debian, and apt-get is not to be found")
    with RabbitServer(f"max_message_size = {LARGEST}") as server:
        yield server


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaUnderTest]:
    """A server of whoever runs the tests, or what comes nearest to one."""
    if url := os.environ.get(KAFKA):
        yield KafkaUnderTest(url, real=True)
    else:
        with KafkaInside() as cluster:
            yield KafkaUnderTest(cluster.url)


@pytest.fixture
def rabbit_broker(rabbit_server: RabbitServer) -> RabbitUnderTest:
    _running(rabbit_server)
    return RabbitUnderTest(rabbit_server)


def _broker_under_test(name: str, request: pytest.FixtureRequest) -> BrokerUnderTest:
    if name == "rabbitmq":
        return RabbitUnderTest(request.getfixturevalue("rabbit_server"))
    if name == "celery over rabbitmq":
        return CeleryOverRabbit(request.getfixturevalue("rabbit_server"))
    if name == "celery over redis":
        return CeleryOverRedis(request.getfixturevalue("redis_broker").server)
    found: BrokerUnderTest = request.getfixturevalue(f"{name}_broker")
    return found


def _running(server: Server | None) -> None:
    """Whatever the test before has done to it."""
    if server is not None and not server.is_running:
        server.start()


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest) -> BrokerUnderTest:
    """Where messages have bodies and headers of ours."""
    found = _broker_under_test(request.param, request)
    _running(found.server)
    return found


@pytest.fixture(params=BROKERS_AND_CELERY)
def broker_or_celery(request: pytest.FixtureRequest) -> BrokerUnderTest:
    found = _broker_under_test(request.param, request)
    _running(found.server)
    return found


@pytest.fixture(params=OURS)
def killable_broker(request: pytest.FixtureRequest) -> BrokerUnderTest:
    """One whose server the test may kill."""
    found = _broker_under_test(request.param, request)
    _running(found.server)
    return found


@pytest.fixture
async def open_app(tmp_path: Path, clock: ManualClock) -> AsyncIterator[OpenDuly]:
    """Opens `Duly` objects on one SQLite file, which is store enough for what channels do."""
    async with AsyncExitStack() as stack:

        async def opened(**options: Any) -> Duly:
            usual: dict[str, Any] = {"database_url": f"sqlite:///{tmp_path}/duly.db", "clock": clock}
            app = Duly(**(usual | options))
            return await stack.enter_async_context(app)

        yield opened
