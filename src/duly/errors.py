"""What goes wrong, by name. Every message says what happened, to what, and what to do next."""

from collections.abc import Sequence
from typing import NamedTuple


class DulyError(Exception):
    """The root of every error that Duly raises on purpose."""

    request_id: str | None = None  # of the HTTP request that failed, where the error comes from a server


class Problem(NamedTuple):
    """One thing that is wrong with an input: where it is, and what to do about it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Invalid(DulyError):
    """An input with problems, all of them at once. Nothing of it was stored."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        shown = "; ".join(str(problem) for problem in self.problems[:20])
        more = len(self.problems) - 20
        super().__init__(shown + (f"; and {more} more" if more > 0 else ""))


class BadSetting(DulyError):
    """A setting that cannot be used. Nothing starts with it."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        self.name, self.value, self.allowed = name, value, allowed
        super().__init__(f"{name}={value!r} cannot be used: expected {allowed}")


class NotFound(DulyError):
    """There is no such thing, or it belongs to another tenant."""


class Conflict(DulyError):
    """The thing exists, but its state does not allow the act."""


class Stale(Conflict):
    """What is to be changed is not as the caller last saw it."""


class IllegalTransition(Conflict):
    """A step that the lifecycle does not have."""

    def __init__(self, subject: str, status: str, act: str, allowed: str) -> None:
        self.status, self.act = status, act
        super().__init__(f"cannot {act} {subject}: it is {status}, and only {allowed} can be {past(act)}")


class Unauthenticated(DulyError):
    """A request without a key, or with one that is unknown, revoked or expired."""


class Forbidden(DulyError):
    """The key is good, but not for this."""


class StoreError(DulyError):
    """The store refused, and trying again will not help."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or cannot write just now; trying again later may help."""


class Unconfirmed(StoreUnavailable):
    """The connection was lost while the store wrote: nobody knows whether it has."""


class NotWritable(StoreUnavailable):
    """The store can be read but not written just now: its disk is full, or somebody else has it locked. Nothing of what
    was asked has been stored."""


class ServerUnavailable(StoreUnavailable):
    """A server did not answer in time, or could not do it just now; trying again later may help."""


class ServerError(DulyError):
    """A server answered what no caller can mend: it has an error of its own, or is no Duly at all."""


class SchemaMismatch(StoreError):
    """The database's tables are not the ones that this Duly needs."""


class Misuse(DulyError):
    """A call that cannot be right, whatever the data: the message says what to call instead."""


class Unsealed(Misuse):
    """The secrets of a target cannot be sealed or opened here: the message says what to set."""


def past(act: str) -> str:
    """The participle of an act, for messages: cancel → cancelled."""
    return {"cancel": "cancelled", "replay": "replayed", "discard": "discarded"}.get(act, act.rstrip("e") + "ed")
