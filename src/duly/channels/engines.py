"""The brokers and task queues that events can go to. Each library is imported when its first message is to be sent."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from duly.channels.brokers import Brokered, Client, Link, Message
from duly.channels.requests import CLOUD, JSON, cloud_body, standard_body
from duly.core.broker_targets import CELERY, KAFKA, NATS, RABBITMQ, REDIS, spelled_out
from duly.core.model import Event, Outcome, Unreachable


class Engine(NamedTuple):
    library: str  # to be imported
    module: str  # of this package
    client: str  # the class in it; it takes the URL
    extra: str  # what to install


ENGINES = {
    NATS: Engine("nats", "nats", "Nats", "nats"),
    REDIS: Engine("redis", "redis", "Redis", "redis"),
    RABBITMQ: Engine("aio_pika", "rabbitmq", "RabbitMq", "rabbitmq"),
    KAFKA: Engine("aiokafka", "kafka", "Kafka", "kafka"),
    CELERY: Engine("celery", "celery", "Celery", "celery"),
}

FORMS = {"standard": (JSON, standard_body), "cloudevents": (CLOUD, cloud_body)}


class Absent:
    """A channel that is for other workers to serve: here, nobody said where its server is."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def deliver(self, event: Event) -> Outcome:
        return Unreachable(f"this worker has no {self.name}: set DULY_{self.name.upper()}_URL")


def is_installed(name: str) -> bool:
    return find_spec(ENGINES[name].library) is not None


def make_channel(name: str, url: str) -> Brokered:
    return Brokered(Link(_opener(name, url)), write_message, lambda event: where_to(name, event))


def where_to(name: str, event: Event) -> Mapping[str, Any]:
    assert event.target is not None
    return spelled_out(name, event.target[name])


def write_message(event: Event) -> Message:
    """The same body as a webhook's. What it says about the message stands in its headers."""
    [spec] = (event.target or {}).values()
    said = spec if isinstance(spec, dict) else {}
    content_type, write = FORMS[said.get("format", "standard")]
    return Message(event.id, write(event), {"Content-Type": content_type, **said.get("headers", {})})


def _opener(name: str, url: str) -> Callable[[], Client]:
    engine = ENGINES[name]

    def make() -> Client:
        made: Client = getattr(import_module(f"duly.channels.{engine.module}"), engine.client)(url)
        return made

    return make
