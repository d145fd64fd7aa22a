"""ETags: a client that changes a shared record says in If-Match which version it has read."""

from starlette.requests import Request

from duly.api.protocol.request import ApiRequest
from duly.errors import Problem, Stale

CONDITIONS = ("If-Match", "If-None-Match", "If-Unmodified-Since")


def etag(tag: str) -> dict[str, str]:
    return {"ETag": f'"{tag}"'}


def if_match_problems(request: Request) -> list[Problem]:
    written = request.headers.get("if-match")
    if written is None or all(tag == "*" or _is_tag(tag) for tag in _tags(written)):
        return []
    return [Problem("If-Match", 'expected the ETag as it was received, with its quotes, such as "1a2b3c"')]


def unheeded(request: Request, heeds_if_match: bool) -> list[Problem]:
    """Problems for conditional headers that this operation does not support: a client that sends one relies on it."""
    known = {"If-Match"} if heeds_if_match else set()
    return [
        Problem(
            name,
            "is not supported here, only for PUT, PATCH and DELETE of schedules, users and templates: remove the "
            "header",
        )
        for name in CONDITIONS
        if name not in known and name in request.headers
    ]


def _tags(written: str) -> list[str]:
    return [tag.strip(" \t") for tag in written.split(",")]


def expected(ask: ApiRequest, current: str | None) -> str | None:
    """The ETag that must still be current when the record is written; None without If-Match. *current* is the record's
    ETag, None if there is no record. The check is repeated on the locked row."""
    written = ask.request.headers.get("if-match")
    if written is None:
        return None
    wanted = _tags(written)
    if current is not None and (wanted == ["*"] or f'"{current}"' in wanted):
        return current
    raise Stale("it has changed since you read it, or does not exist: read it again, then repeat the change")


def _is_tag(written: str) -> bool:
    tag = written.removeprefix("W/")
    return len(tag) >= 2 and tag[0] == tag[-1] == '"' and '"' not in tag[1:-1]
