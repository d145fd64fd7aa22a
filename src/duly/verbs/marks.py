"""Decorators for verbs: which ones only read, and which ones only the HTTP API and the command line need."""

from collections.abc import Callable
from typing import Any, TypeVar

Verb = TypeVar("Verb", bound=Callable[..., Any])


def reads(verb: Verb) -> Verb:
    """Marks a verb that begins no transaction. ``duly.sync`` lets it run while the same thread has a transaction open:
    on SQLite, a verb that begins another one would wait for the first forever."""
    verb.__dict__["reads"] = True
    return verb


def only_reads(verb: Callable[..., Any]) -> bool:
    return getattr(verb, "reads", False)


def for_doors(verb: Verb) -> Verb:
    """Marks a verb that only the HTTP API and the command line need. Neither ``duly.sync`` nor a Client offers it."""
    verb.__dict__["for_doors"] = True
    return verb


def is_for_doors(verb: object) -> bool:
    return getattr(verb, "for_doors", False)
