"""What ``duly migrate`` does and tells about the role of API requests, on PostgreSQL."""

import os
from collections.abc import Awaitable
from getpass import getuser
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from duly.cli.output import note
from duly.errors import ApiNotReady


async def found(look: Awaitable[object]) -> ApiNotReady | None:
    """What an administrator has to do before requests can be served; None if nothing."""
    try:
        await look
    except ApiNotReady as error:
        return error
    return None


def tell(not_ready: ApiNotReady | None) -> None:
    if not_ready is not None:
        note(f"note: everything but the HTTP API can be used: {not_ready.found}. {not_ready.advice}")
        for statement in not_ready.sql:
            note(statement)


def to_json(not_ready: ApiNotReady | None) -> dict[str, Any] | None:
    if not_ready is None:
        return None
    return {"found": not_ready.found, "advice": not_ready.advice, "sql": not_ready.sql}


def user_of(url: str) -> str:
    """The user that a database URL names, as the driver reads it; empty if that cannot be found out."""
    try:
        parts = urlsplit(url)
        [named, *_] = parse_qs(parts.query).get("user", [parts.username])
        return unquote(named) if named else os.environ.get("PGUSER") or getuser()
    except (ValueError, LookupError, OSError):
        return ""
