"""Errors as problem documents (RFC 9457), with every problem of a request at once."""

import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from duly.api.protocol.request import ApiResponse
from duly.errors import (
    ApiNotReady,
    Conflict,
    DulyError,
    Forbidden,
    Invalid,
    NotFound,
    Problem,
    RightsMissing,
    SchemaMismatch,
    Stale,
    StoreError,
    StoreUnavailable,
    Unauthenticated,
    Unsealed,
)
from duly.records.wire.answers import UNCERTAIN

MEDIA_TYPE = "application/problem+json"
RENAMED = {"due": "due_at"}
"""Names of fields that differ between the verbs and JSON."""

MOST_PROBLEMS = 100
"""Problems reported for a request: an answer must not be far larger than its request."""

MOST_PROBLEMS_OF_ONE_ITEM = 10
"""Problems reported for each item of a batch, for the same reason."""

RETRY_AFTER = "1"
RETRY_AFTER_PEOPLE = "30"
"""Retry-After of what does not pass before somebody has acted."""

NO_RIGHT = (
    "the database refused the server's own user a right that it needs; nothing was changed. This does not pass by "
    "itself: the server's log has the details under this request_id, and `duly doctor` prints the SQL to run."
)
MAY_BE = (
    "the connection to the database was lost while the request was being stored: it may have been carried out. "
    "Check whether it was, or repeat the request with the same Idempotency-Key."
)
BUG = "internal server error: the server's log has the details under this request_id"


class RefusedRequest(DulyError):
    """A request that is refused before it reaches a verb."""

    def __init__(
        self, status: int, detail: str, problems: Sequence[Problem] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        self.status, self.problems, self.headers = status, tuple(problems), dict(headers or {})
        super().__init__(detail)


class Uncertain(DulyError):
    """The database was lost during the commit: it is unknown whether the request was carried out."""

    def __init__(self) -> None:
        super().__init__(MAY_BE)


_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Stale, 412),
    (Conflict, 409),
    (Unsealed, 409),
    (StoreUnavailable, 503),
    (SchemaMismatch, 503),
    (StoreError, 503),
)


def problem(
    status: int,
    detail: str,
    problems: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
    type: str = "about:blank",
) -> ApiResponse:
    body: dict[str, Any] = {
        "type": type,
        "title": _title(status),
        "status": status,
        "detail": detail,
        "errors": errors_of(problems, MOST_PROBLEMS),
    }
    return ApiResponse(body, status, {"Content-Type": MEDIA_TYPE, **(headers or {})})


def _title(status: int) -> str:
    """The standard phrase of a status, if it has one: an application's own ``authenticate`` may raise any status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def errors_of(problems: Sequence[Problem], most: int = MOST_PROBLEMS_OF_ONE_ITEM) -> list[dict[str, str]]:
    return [{"path": RENAMED.get(path, path), "message": message} for path, message in problems[:most]]


def problem_of(error: DulyError) -> ApiResponse:
    """The problem document for an error of a verb."""
    if isinstance(error, RefusedRequest):
        return problem(error.status, str(error), error.problems, error.headers)
    if isinstance(error, Invalid):
        count = len(error.problems)
        told = f"{count} problem{'' if count == 1 else 's'}, and nothing was changed"
        first = f"; the first {MOST_PROBLEMS} are listed" if count > MOST_PROBLEMS else ""
        return problem(422, told + first, error.problems)
    if isinstance(error, Uncertain):
        return problem(503, str(error), headers=_headers(503), type=UNCERTAIN)
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return problem(status, _told(error), headers=_headers(status, error))
    return problem(500, BUG)


def _told(error: DulyError) -> str:
    """The error's message. Messages about the database are only for the people who run it, so callers get a general
    one; but who sets a server up has to see why it does not answer."""
    if isinstance(error, ApiNotReady):
        return str(error)
    if isinstance(error, RightsMissing):
        return NO_RIGHT
    if isinstance(error, StoreError):
        return "the database is not available at the moment; nothing was changed. Try again in a few seconds."
    return str(error)


def _headers(status: int, error: DulyError | None = None) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="duly"'}
    if isinstance(error, ApiNotReady | RightsMissing):
        return {"Retry-After": RETRY_AFTER_PEOPLE}
    return {"Retry-After": RETRY_AFTER} if status == 503 else {}


def without_message(error: BaseException) -> str:
    """The type and place of an error, without its message, which might repeat the content of the request."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    where = " < ".join(
        f"{frame.filename.rpartition('/duly/')[2]}:{frame.lineno} {frame.name}" for frame in frames[::-1]
    )
    return f"{type(error).__name__} at {where}"
