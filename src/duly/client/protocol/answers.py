"""Answers of a server, and the exception for each answer that is an error."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from duly.errors import (
    Conflict,
    DulyError,
    Forbidden,
    Invalid,
    Misuse,
    NotFound,
    Problem,
    ServerError,
    Stale,
    Unauthenticated,
)
from duly.records.wire.answers import UNCERTAIN, FieldError

RENAMED: Mapping[str, str] = {"due_at": "due"}
"""Names of fields that differ between JSON and the verbs."""

_ERRORS: Mapping[int, type[DulyError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Stale,
}


log = logging.getLogger("duly.client")

_logged: set[str] = set()


def log_warnings(warnings: Iterable[str]) -> None:
    """Logs what a server warns of, each warning once: a type that no worker has served yet."""
    for warning in warnings:
        if warning not in _logged:
            _logged.add(warning)
            log.warning("server.warned warning=%r", warning)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def request_id(self) -> str | None:
        return self.headers.get("X-Request-Id")

    @property
    def is_uncertain(self) -> bool:
        """Whether the server says that it does not know itself whether it has carried the request out."""
        try:
            return _problem.decode(self.body).type == UNCERTAIN
        except msgspec.MsgspecError:
            return False


class _Problem(msgspec.Struct):
    """The fields of a problem document that the client uses; a proxy may have written the document as well."""

    detail: str
    errors: list[FieldError] = []
    type: str = "about:blank"


_problem = msgspec.json.Decoder(_Problem)


def error_of(answer: Reply, request_id: str, renamed: Mapping[str, str]) -> DulyError | None:
    """The exception for an answer; None for a success."""
    if 200 <= answer.status < 300:
        return None
    return named(_error(answer, renamed), answer.request_id or request_id)


def _error(answer: Reply, renamed: Mapping[str, str]) -> DulyError:
    status = answer.status
    if 300 <= status < 400:
        elsewhere = answer.headers.get("Location", "elsewhere")
        return Misuse(f"the server redirects to {elsewhere[:200]}: create the Client with that address")
    try:
        problem = _problem.decode(answer.body)
    except msgspec.DecodeError:
        return ServerError(f"the server answered {status}, but not as a Duly server does: check the address")
    if status in (400, 413, 422):
        wrong = [Problem(renamed.get(one.path, one.path), one.message) for one in problem.errors]
        return Invalid(wrong or [Problem("body", problem.detail)])
    if status in _ERRORS:
        return _ERRORS[status](problem.detail)
    return ServerError(f"the server answered {status}: {problem.detail}")


def named(error: DulyError, request_id: str) -> DulyError:
    """The error, extended by the id under which the server has logged the request."""
    error.request_id = request_id
    error.args = (f"{error} (request {request_id})",)
    return error


def misunderstood(answer: Reply, error: Exception, request_id: str) -> DulyError:
    told = f"the server answered {answer.status} with a body that this client does not understand: {error!s:.200}"
    return named(ServerError(told), answer.request_id or request_id)


def problems_of(errors: Any, prefix: str = "", renamed: Mapping[str, str] = RENAMED) -> list[Problem]:
    """The problems of one item of a batch."""
    return [Problem(f"{prefix}{renamed.get(one.path, one.path)}".rstrip("."), one.message) for one in errors]
