"""Lists by pages: how many at once, and where the next page begins."""

from cyclopts import Parameter
from cyclopts.validators import Number

from duly.edges.cli.user_names import is_id
from duly.errors import Invalid, Problem
from duly.flow.admin import MOST


def how_many(usual: int) -> Parameter:
    return Parameter(help=f"How many, {usual} unless told, {MOST} at most", validator=Number(gte=1, lte=MOST))


def check_after(after: str | None, whose: str) -> None:
    if after is not None and not is_id(after):
        raise Invalid([Problem("after", f"{after!r:.60} is not {whose} id: expected a UUID, the last id of a page")])
