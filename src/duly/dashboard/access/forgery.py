"""Protection against forms that pages of other sites send (cross-site request forgery)."""

import hashlib
import hmac
from collections.abc import Mapping

from starlette.requests import Request

from duly.errors import Forbidden

FIELD = "csrf"
"""The hidden field of each form."""

HEADER = "x-duly-csrf"
"""The header of requests that a script sends."""

SAFE = ("GET", "HEAD")
"""The methods of requests that change nothing."""


def token_for(anchor: str) -> str:
    """The token that forms carry: it follows from the visitor's cookie, which no other site can read."""
    return hashlib.sha256(f"duly form {anchor}".encode()).hexdigest()


def refuse_other_sites(request: Request) -> None:
    """Refuses requests that a page of another site has sent, as far as browsers tell."""
    site = request.headers.get("sec-fetch-site")
    if request.method not in SAFE and site not in (None, "same-origin", "none"):
        raise Forbidden("this form was sent by a page of another site: open the dashboard and send it from there")
    origin = request.headers.get("origin")
    if origin is not None and request.method not in SAFE and origin.partition("://")[2] != request.headers.get("host"):
        raise Forbidden("this form was sent by a page of another site: open the dashboard and send it from there")


def require_token(request: Request, form: Mapping[str, str], anchor: str | None) -> None:
    """Refuses a form that carries no token, or another visitor's."""
    given = request.headers.get(HEADER) or form.get(FIELD, "")
    if anchor is None or not hmac.compare_digest(given.encode(), token_for(anchor).encode()):
        raise Forbidden("this form is too old, or of another visitor: go back, reload the page and send it again")
