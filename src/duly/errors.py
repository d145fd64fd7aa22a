"""The exceptions of Duly. Every message says what happened, to what, and what to do next."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from duly.records.event import Event


class DulyError(Exception):
    """The base of every exception that Duly raises on purpose."""

    request_id: str | None = None  # the id of the failed HTTP request, in an error from a server


class Problem(NamedTuple):
    """A problem of an input: the path of the bad value, and what to do about it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Invalid(DulyError):
    """An input with problems, all reported at once. Nothing of the input was stored."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problem._replace(message=_plainly(problem.message)) for problem in problems)
        shown = "; ".join(str(problem) for problem in self.problems[:20])
        more = len(self.problems) - 20
        super().__init__(shown + (f"; and {more} more" if more > 0 else ""))


def _plainly(message: str) -> str:
    """The message without Python's word for what was not given, which callers over HTTP do not know."""
    for word in (", not None", ", not NoneType"):
        if message.endswith(word):
            return f"{message.removesuffix(word)}, and nothing was given"
    return message


class BadSetting(DulyError):
    """A setting with a value that cannot be used. Duly does not start with it."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        self.name, self.value, self.allowed = name, value, allowed
        super().__init__(f"{name}={value!r} cannot be used: expected {allowed}")


class NotFound(DulyError):
    """The record does not exist, or it belongs to another tenant."""


class Conflict(DulyError):
    """The record exists, but its state does not allow the act."""


class AlreadyFired(Conflict):
    """The key of a timer has fired with another due time, so nothing was scheduled. *event* is what has fired."""

    def __init__(self, message: str, event: "Event") -> None:
        self.event = event
        super().__init__(message)


class Stale(Conflict):
    """The record has changed since the caller read it."""


class IllegalTransition(Conflict):
    """A change of status that the lifecycle does not allow."""

    def __init__(self, subject: str, status: str, act: str, allowed: str) -> None:
        self.status, self.act = status, act
        super().__init__(f"cannot {act} {subject}: it is {status}, and only {allowed} events can be {past(act)}")


class Unauthenticated(DulyError):
    """A request without a key, or with a key that is unknown, revoked or expired."""


class Forbidden(DulyError):
    """The key is valid, but its scope or tenant does not allow the request."""


class StoreError(DulyError):
    """The store refused, and a retry will not help."""


class RightsMissing(StoreError):
    """The database user lacks a right. This does not pass by itself: an administrator has to grant the right."""


class ApiNotReady(StoreError):
    """The database is not ready for requests of the API: *found* is why, and *advice* what to do. *sql* has the
    statements that an administrator has to run, if SQL is the remedy."""

    def __init__(self, found: str, advice: str, sql: Sequence[str] = ()) -> None:
        self.found, self.advice, self.sql = found, advice, tuple(f"{statement};" for statement in sql)
        super().__init__(f"{found}. {advice}" + (":\n\n" + "\n".join(self.sql) if sql else ""))


class StoreUnavailable(StoreError):
    """The store cannot be reached or cannot write at the moment; a later retry may help."""


class Unconfirmed(StoreUnavailable):
    """The connection was lost during a write: it is unknown whether the store has committed it."""


class RowLocked(StoreUnavailable):
    """Another transaction holds a row for longer than the statement may wait for it."""


class NotWritable(StoreUnavailable):
    """The store can be read but not written at the moment: its disk is full, or another process has locked it. Nothing
    of the request has been stored."""


class ServerUnavailable(StoreUnavailable):
    """A server did not answer in time, or could not serve the request at the moment; a later retry may help."""


class ServerError(DulyError):
    """A server's answer that no caller can fix: the server has an internal error, or is not a Duly."""


class SchemaMismatch(StoreError):
    """The tables of the database are not those that this version of Duly needs."""


class Misuse(DulyError):
    """A call that is wrong for any data: the message says what to call instead."""


class Unsealed(Misuse):
    """The secrets of a target cannot be encrypted or decrypted here: the message says what to set."""


def past(act: str) -> str:
    """The participle of an act, for messages: cancel → cancelled."""
    return {"cancel": "cancelled", "replay": "replayed", "discard": "discarded"}.get(act, act.rstrip("e") + "ed")
