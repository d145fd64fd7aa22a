"""Targets of brokers and task queues: ``{"nats": "orders.due"}``, or an object with more fields."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from duly.decide.targets.targets import FORMATS, header_problems
from duly.errors import Problem

NATS = "nats"
REDIS = "redis"
RABBITMQ = "rabbitmq"
KAFKA = "kafka"
CELERY = "celery"


class BrokerVocabulary(NamedTuple):
    """The fields of a channel's targets."""

    where: str  # the address field, which a plain text stands for
    more: tuple[str, ...]  # the other fields
    pattern: str
    expected: str
    own: frozenset[str] = frozenset()  # headers that every message of the channel has


_MESSAGE = ("format", "headers")
_TYPE = "content-type"

WORDS = {
    NATS: BrokerVocabulary(
        "subject",
        _MESSAGE,
        r"(?!\$|_INBOX\.)[^\s.*>]+(\.[^\s.*>]+)*",  # subjects that begin with $ are commands to the server
        "a subject such as orders.due, without wildcards, and not a reserved one",
        frozenset({_TYPE, "nats-msg-id"}),
    ),
    REDIS: BrokerVocabulary(
        "stream", ("max_length", *_MESSAGE), r".+", "the key of a stream", frozenset({_TYPE, "id", "body"})
    ),
    RABBITMQ: BrokerVocabulary(
        "routing_key",
        ("exchange", *_MESSAGE),
        r".*",
        "a queue, or the routing key of an exchange",
        frozenset({_TYPE}),
    ),
    KAFKA: BrokerVocabulary(
        "topic",
        ("key", *_MESSAGE),
        r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}",
        "a topic: letters, digits, dots, dashes, underscores",
        frozenset({_TYPE, "idempotency-key"}),
    ),
    CELERY: BrokerVocabulary("task", ("queue",), r"\S+", "the name of a task such as shop.tasks.remind"),
}

_OTHER_FIELDS = {
    "exchange": (r".*", "the name of an exchange"),
    "key": (r".*", "text"),
    "queue": (r".+", "the name of a queue"),
}

LONGEST = 255
"""Bytes of a subject, stream, topic, key, queue, exchange or task, at most."""

MOST_HEADER_CHARACTERS = 32_768
"""Characters in all headers together; with several times as many, some brokers close the connection."""

MOST_STREAM_ENTRIES = 1_000_000_000
"""The largest max_length of a Redis stream."""


# -- writing


def nats(subject: str, *, format: str | None = None, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Publish to a subject of NATS JetStream.

    >>> nats("orders.due")
    {'nats': 'orders.due'}
    """
    return _target(NATS, subject, format=format, headers=headers)


def redis(
    stream: str,
    *,
    max_length: int | None = None,
    format: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Add to a Redis stream, of which about *max_length* entries are kept.

    >>> redis("orders", max_length=10_000)
    {'redis': {'stream': 'orders', 'max_length': 10000}}
    """
    return _target(REDIS, stream, max_length=max_length, format=format, headers=headers)


def rabbitmq(
    routing_key: str,
    *,
    exchange: str | None = None,
    format: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Publish to a queue, or to an exchange with a routing key."""
    return _target(RABBITMQ, routing_key, exchange=exchange, format=format, headers=headers)


def kafka(
    topic: str,
    *,
    key: str | None = None,
    format: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Send to a topic; messages with one key keep their order."""
    return _target(KAFKA, topic, key=key, format=format, headers=headers)


def celery(task: str, *, queue: str | None = None) -> dict[str, Any]:
    """Send a task under the event's id. An object as payload becomes its keyword arguments, a list its arguments,
    and anything else its only argument; without a payload it has none."""
    return _target(CELERY, task, queue=queue)


def _target(channel: str, where: str, **more: Any) -> dict[str, Any]:
    given = {name: value for name, value in more.items() if value is not None}
    return {channel: {WORDS[channel].where: where, **given} if given else where}


# -- reading


def spelled_out(channel: str, spec: Any) -> Mapping[str, Any]:
    """The target as an object, also where it was written as plain text."""
    return {WORDS[channel].where: spec} if isinstance(spec, str) else spec


# -- checking


def broker_problems(channel: str, spec: Any) -> Iterator[Problem]:
    path, words = f"target.{channel}", WORDS[channel]
    if not isinstance(spec, str | dict):
        yield Problem(path, f"expected {words.expected}, or an object, not {type(spec).__name__}")
        return
    said = spelled_out(channel, spec)
    if unknown := sorted(str(name) for name in set(said) - {words.where, *words.more}):
        yield Problem(f"{path}.{unknown[0]:.50}", f"is not known; known: {words.where}, {', '.join(words.more)}")
    if words.where not in said:
        yield Problem(path, f"needs {words.where}: {words.expected}")
    else:
        yield from _word_problems(f"{path}.{words.where}", said[words.where], words.pattern, words.expected)
    if channel == RABBITMQ and said.get("routing_key") == "" and not said.get("exchange"):
        yield Problem(f"{path}.routing_key", "is empty: give the name of a queue, or an exchange")
    for name in (name for name in words.more if name in said):
        yield from _more_problems(f"{path}.{name}", name, said[name], words)


def _more_problems(path: str, name: str, written: Any, words: BrokerVocabulary) -> Iterator[Problem]:
    if name in _OTHER_FIELDS:
        yield from _word_problems(path, written, *_OTHER_FIELDS[name])
    elif name == "format":
        if written not in FORMATS:
            yield Problem(path, f"expected one of {', '.join(FORMATS)}, not {written!r:.50}")
    elif name == "max_length":
        if type(written) is not int or not 1 <= written <= MOST_STREAM_ENTRIES:
            yield Problem(path, f"expected a whole number from 1 to {MOST_STREAM_ENTRIES:,}, not {written!r:.50}")
    else:
        yield from header_problems(path, written)
        yield from _own_header_problems(path, written if isinstance(written, dict) else {}, words)


def _own_header_problems(path: str, headers: Mapping[Any, Any], words: BrokerVocabulary) -> Iterator[Problem]:
    for name in (str(name) for name in headers if str(name).lower() in words.own):
        yield Problem(f"{path}.{name:.50}", "is set by Duly in every message and cannot be given")
    if sum(len(str(name)) + len(str(value)) for name, value in headers.items()) > MOST_HEADER_CHARACTERS:
        yield Problem(path, f"have more than {MOST_HEADER_CHARACTERS:,} characters in all")


def _word_problems(path: str, written: Any, pattern: str, expected: str) -> Iterator[Problem]:
    if not isinstance(written, str) or not written.isprintable() or len(written.encode()) > LONGEST:
        yield Problem(path, f"expected {expected}, of at most {LONGEST} bytes, not {written!r:.50}")
    elif not re.fullmatch(pattern, written):
        yield Problem(path, f"expected {expected}, not {written!r:.50}")
