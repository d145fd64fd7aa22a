"""Lists by pages: how many at once, and where the next page begins."""

from cyclopts import Parameter
from cyclopts.validators import Number

from duly.core.checks import MOST_LISTED, check_id


def how_many(usual: int) -> Parameter:
    return Parameter(
        help=f"How many, {usual} unless told, {MOST_LISTED} at most", validator=Number(gte=1, lte=MOST_LISTED)
    )


def check_after(after: str | None, whose: str) -> None:
    if after is not None:
        check_id(after, whose, "after")
