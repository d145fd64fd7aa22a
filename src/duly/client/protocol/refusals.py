"""Refusals of arguments and verbs that do not work over HTTP, with the alternative."""

from typing import Any

from duly.errors import Misuse


def refuse_transaction(given: Any) -> None:
    if given is not None:
        raise Misuse(
            "transaction= cannot be used over HTTP: use Duly directly on your database, or call after your "
            "commit with a key=, so that a repeated call changes nothing"
        )


def refuse_name(by: str, usual: str = "api") -> None:
    """Refuses *by*: over HTTP the history names the API key, which a caller cannot change."""
    if by != usual:
        raise Misuse(
            "by= cannot be used over HTTP: the history shows the name of the API key. Create a key "
            "for each person or program"
        )


def here_only(what: str, instead: str) -> Misuse:
    return Misuse(f"{what} is not available over HTTP: {instead}")
