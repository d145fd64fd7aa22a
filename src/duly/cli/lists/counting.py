"""``--count``: how many match, instead of the list."""

from typing import Annotated

from cyclopts import Parameter

from duly.cli.output import print_json
from duly.records.finding.counts import Count

Counting = Annotated[
    bool,
    Parameter(help="Only tell how many match: exactly up to 10,000, then an estimate (such as 'about 1.2 million')"),
]


def tell_count(count: Count, *, json: bool) -> None:
    if json:
        print_json({"count": count})
    else:
        print(count)
