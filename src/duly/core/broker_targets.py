"""Targets that are brokers and task queues: ``{"nats": "orders.due"}``, or an object that says more."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from duly.core.targets import FORMATS, header_problems
from duly.errors import Problem

NATS, REDIS, RABBITMQ, KAFKA, CELERY = "nats", "redis", "rabbitmq", "kafka", "celery"


class Words(NamedTuple):
    """How a channel speaks of where a message goes."""

    where: str  # the field that a plain text stands for
    more: tuple[str, ...]  # what else can be said
    pattern: str
    expected: str


_MESSAGE = ("format", "headers")

WORDS = {
    NATS: Words("subject", _MESSAGE, r"[^\s.*>]+(\.[^\s.*>]+)*", "a subject such as orders.due, without wildcards"),
    REDIS: Words("stream", ("max_length", *_MESSAGE), r".+", "the key of a stream"),
    RABBITMQ: Words("routing_key", ("exchange", *_MESSAGE), r".*", "a queue, or the routing key of an exchange"),
    KAFKA: Words("topic", ("key", *_MESSAGE), r"[A-Za-z0-9._-]{1,249}", "a topic: letters, digits, dots, dashes"),
    CELERY: Words("task", ("queue",), r"[^\s]+", "the name of a task such as shop.tasks.remind"),
}

LONGEST = 255
MOST_KEPT = 1_000_000_000


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
    """Add to a Redis stream, of which about *max_length* entries are kept."""
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
    and anything else its only argument."""
    return _target(CELERY, task, queue=queue)


def _target(channel: str, where: str, **more: Any) -> dict[str, Any]:
    given = {name: value for name, value in more.items() if value is not None}
    return {channel: {WORDS[channel].where: where, **given} if given else where}


# -- reading


def spelled_out(channel: str, spec: Any) -> Mapping[str, Any]:
    """What a target says, as an object."""
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
    for name in set(said) & {"exchange", "key", "queue"}:
        yield from _word_problems(f"{path}.{name}", said[name], r".*", "text")
    if "format" in said and said["format"] not in FORMATS:
        yield Problem(f"{path}.format", f"expected one of {', '.join(FORMATS)}, not {said['format']!r:.50}")
    if "headers" in said:
        yield from header_problems(f"{path}.headers", said["headers"])
    if "max_length" in said and (type(said["max_length"]) is not int or not 1 <= said["max_length"] <= MOST_KEPT):
        yield Problem(f"{path}.max_length", f"expected a whole number from 1, not {said['max_length']!r:.50}")


def _word_problems(path: str, written: Any, pattern: str, expected: str) -> Iterator[Problem]:
    if not isinstance(written, str) or len(written.encode()) > LONGEST or not written.isprintable():
        yield Problem(path, f"expected {expected}, of at most {LONGEST} bytes, not {written!r:.50}")
    elif not re.fullmatch(pattern, written):
        yield Problem(path, f"expected {expected}, not {written!r:.50}")
