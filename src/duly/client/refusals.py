"""Refusals of arguments and verbs that do not work over HTTP, with the alternative."""

from typing import Any

from duly.errors import Misuse


def refuse_transaction(given: Any) -> None:
    if given is not None:
        raise Misuse(
            "transaction= cannot reach over HTTP into your database: use Duly on that database itself, or call after "
            "your commit with a key= so that a second call changes nothing"
        )


def refuse_name(by: str, usual: str = "api") -> None:
    """Refuses *by*: over HTTP the history names the API key, which a caller cannot change."""
    if by != usual:
        raise Misuse("by= is not for HTTP: the history names the API key. Make a key for each who acts")


def here_only(what: str, instead: str) -> Misuse:
    return Misuse(f"{what} is not for HTTP: {instead}")
