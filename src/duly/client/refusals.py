"""What cannot be had over HTTP, and what to do instead."""

from typing import Any

from duly.errors import Misuse


def refuse_transaction(given: Any) -> None:
    if given is not None:
        raise Misuse(
            "transaction= cannot reach over HTTP into your database: use Duly on that database itself, or call after "
            "your commit with a key= so that a second call changes nothing"
        )


def refuse_name(by: str, usual: str = "api") -> None:
    """The history names the API key, which nobody can choose to be."""
    if by != usual:
        raise Misuse("by= is not for HTTP: the history names the API key. Make a key for each who acts")


def here_only(what: str, instead: str) -> Misuse:
    return Misuse(f"{what} is not for HTTP: {instead}")
