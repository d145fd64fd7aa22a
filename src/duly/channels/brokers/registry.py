"""The brokers and task queues that events can be sent to. Each library is imported when its first message is sent."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from duly.channels.brokers.channel import BrokerChannel, BrokerClient, BrokerConnection, BrokerMessage
from duly.channels.http.payload_format import BODY_FORMATS, TEST_HEADER, facts_of
from duly.channels.missing import MissingChannel
from duly.decide.targets.broker_allow import BrokerAllow
from duly.decide.targets.brokers import CELERY, KAFKA, NATS, RABBITMQ, REDIS, spelled_out
from duly.extras import install
from duly.records.event import Event


class Broker(NamedTuple):
    title: str
    library: str  # the package to import
    module: str  # the module of duly.channels.brokers
    client: str  # the class in that module; its one argument is the URL


BROKERS = {  # by the name of the extra to install
    NATS: Broker("NATS", "nats", "nats", "Nats"),
    REDIS: Broker("Redis", "redis", "redis", "Redis"),
    RABBITMQ: Broker("RabbitMQ", "aio_pika", "rabbitmq", "RabbitMq"),
    KAFKA: Broker("Kafka", "aiokafka", "kafka", "Kafka"),
    CELERY: Broker("Celery", "celery", "celery", "Celery"),
}

REDIS_SCHEMES = ("redis:", "rediss:", "sentinel:")
"""Beginnings of Celery's URLs for which Celery needs the library of Redis, which it does not install itself."""

CLOSED = BrokerAllow()


def make_channel(name: str, url: str | None, allow: BrokerAllow = CLOSED) -> BrokerChannel | MissingChannel:
    """The channel of a broker. *allow* limits the addresses of events that were scheduled over HTTP."""
    unable = f"cannot reach {BROKERS[name].title}"
    if url is None:
        variable = f"DULY_{name.upper()}_URL"
        return MissingChannel(name, unable, f"{variable} is not set", f"set {variable}")
    if missing := _missing(name, url):
        return MissingChannel(name, unable, f"{missing[0]} is not installed", install(missing[1]))
    write = write_task if name == CELERY else write_message

    def closed(event: Event, where: Mapping[str, Any]) -> str | None:
        if not (problems := list(allow.problems(event.tenant, name, where))):
            return None
        return (
            f"not sent: {problems[0]} (it was created over HTTP; the worker's own setting decides "
            "whether it is delivered)"
        )

    return BrokerChannel(BrokerConnection(_opener(name, url)), write, lambda event: where_to(name, event), closed)


def _missing(name: str, url: str) -> tuple[str, str] | None:
    """The library that is missing for a broker, and the extras to install; None if nothing is missing."""
    library = BROKERS[name].library
    if find_spec(library) is None:
        return library, name
    if name == CELERY and url.startswith(REDIS_SCHEMES) and find_spec(BROKERS[REDIS].library) is None:
        return f"{BROKERS[REDIS].library}, which Celery needs for its URL,", f"{CELERY},{REDIS}"
    return None


def where_to(name: str, event: Event) -> Mapping[str, Any]:
    assert event.target is not None
    return spelled_out(name, event.target[name])


def write_message(event: Event) -> BrokerMessage:
    """The message of an event: the same body as a webhook's, with the content type and the target's headers."""
    [spec] = (event.target or {}).values()
    said = spec if isinstance(spec, dict) else {}
    content_type, write = BODY_FORMATS[said.get("format", "standard")]
    headers = {"Content-Type": content_type, **said.get("headers", {})}
    return BrokerMessage(event.id, write(event), headers | {TEST_HEADER: "true"} if event.is_test else headers)


def write_task(event: Event) -> BrokerMessage:
    """The message of a Celery task: the payload becomes the task's arguments, and the facts of the event become headers
    of the task's request."""
    facts = facts_of(event)
    said = {
        "type": event.type,
        "tenant": event.tenant,
        "due_at": facts.due_at,
        "fired_at": facts.fired_at,
        "attempt": str(facts.attempt),
        "correlation_id": event.correlation_id,
        "key": event.key,
        "schedule": event.schedule,
        "user_id": event.user_id,
        "user_key": None if event.user is None else event.user.key,
        "test": "true" if event.is_test else None,
    }
    headers = {f"duly_{name}": value for name, value in said.items() if value is not None}
    return BrokerMessage(event.id, event.payload_json.encode(), headers)


def _opener(name: str, url: str) -> Callable[[], BrokerClient]:
    engine = BROKERS[name]

    def make() -> BrokerClient:
        made: BrokerClient = getattr(import_module(f"duly.channels.brokers.{engine.module}"), engine.client)(url)
        return made

    return make
