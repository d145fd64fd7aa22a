"""Which verbs only read. ``duly.sync`` lets those run beside a transaction that the same thread has open."""

from collections.abc import Callable
from typing import Any, TypeVar

Verb = TypeVar("Verb", bound=Callable[..., Any])


def reads(verb: Verb) -> Verb:
    """Mark a verb that begins no transaction: on SQLite, one that does would wait for the open one for ever."""
    verb.__dict__["reads"] = True
    return verb


def only_reads(verb: Callable[..., Any]) -> bool:
    return getattr(verb, "reads", False)
