"""The cookies of the dashboard. Scripts set the visitor's time zone and theme, and can read no other one."""

import re
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

SESSION = "duly_session"
"""The secret of a session, of somebody who has signed in."""

VISITOR = "duly_visitor"
"""A random value for visitors without a session, so that forms of other sites can be told from ours."""

TENANT = "duly_tenant"
"""The tenant that a visitor with a key for all tenants has switched to."""

RECEIPT = "duly_receipt"
"""What the last act has done, until the next page has shown it."""

ZONE = "duly_zone"
"""The visitor's time zone, set by the script of the pages."""

THEME = "duly_theme"
"""``light`` or ``dark``, if the visitor has chosen one."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,100}")


def token(request: Request, name: str) -> str | None:
    """The value of a cookie that holds a random value; None if it cannot be one."""
    value = request.cookies.get(name)
    return value if value is not None and _TOKEN.fullmatch(value) else None


def set_cookie(
    response: Response, request: Request, name: str, value: str, *, lifetime: timedelta | None = None
) -> None:
    """Sets a cookie that no script can read, and that no other site's request carries."""
    response.set_cookie(
        name,
        value,
        max_age=None if lifetime is None else int(lifetime.total_seconds()),
        path=path_of(request),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict" if name != SESSION else "lax",  # lax: links from a chat or a mail open the page signed in
    )


def delete_cookie(response: Response, request: Request, name: str) -> None:
    response.delete_cookie(name, path=path_of(request))


def path_of(request: Request) -> str:
    """The path under which the dashboard is mounted."""
    return str(request.scope.get("root_path", "")).rstrip("/") or "/"
