"""Pages of lists: the limit, and the place where the next page begins."""

from urllib.parse import quote, unquote

from cyclopts import Parameter
from cyclopts.validators import Number

from duly.cli.names import DEFAULT_TENANT
from duly.decide.checks import MOST_LISTED, check_id


def how_many(usual: int) -> Parameter:
    return Parameter(
        help=f"Page size (default: {usual}, at most {MOST_LISTED})", validator=Number(gte=1, lte=MOST_LISTED)
    )


def check_after(after: str | None, whose: str) -> None:
    if after is not None:
        check_id(after, whose, "after")


def written_cursor(tenant: str, name: str, asked: str | None) -> str:
    """The cursor of a page of named things: the last name, with its tenant before it unless one tenant was *asked*
    for."""
    if asked is not None or (tenant == DEFAULT_TENANT and "/" not in name):
        return name
    return f"{quote(tenant, safe='')}/{name}"


def read_cursor(after: str, asked: str | None) -> tuple[str, str]:
    """The tenant and the name in a cursor."""
    if asked is not None:
        return asked, after
    tenant, slash, name = after.partition("/")
    return (unquote(tenant), name) if slash else (DEFAULT_TENANT, after)
