"""``--count``: how many match, instead of the list."""

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from duly.cli.output import print_json
from duly.records.finding.counts import Count

Counting = Annotated[
    bool,
    Parameter(help="Only tell how many match: exactly up to 10,000, then an estimate (such as 'about 1.2 million')"),
]


def tell_count(count: Count, *, json: bool, more: Mapping[str, Any] | None = None) -> None:
    """*more*: what else the JSON has."""
    if json:
        print_json({"count": count, **(more or {})})
    else:
        print(count)
