"""The check of ``duly doctor`` for next events that another edition of the time zone data has planned."""

from collections.abc import AsyncIterator

from duly.cli.doctor.check_result import OK, WARN, CheckResult
from duly.cli.output import counted
from duly.duly import Duly
from duly.rules.zones import VERSION

SUBJECT = "zone data"

MOST_COUNTED = 10_000
"""Next events that are counted."""


async def zone_data(duly: Duly) -> AsyncIterator[CheckResult]:
    events = "events" if duly.one_writer else "duly.events"
    count = "SELECT count(*) FROM (SELECT 1 FROM {} WHERE head AND zone_data {} $1 LIMIT {}) AS heads"
    async with duly.transaction() as tx:
        older, newer = [await tx.fetchval(count.format(events, than, MOST_COUNTED), VERSION) for than in ("<", ">")]
    if newer:
        found = f"{_heads(newer)} planned by newer data than {VERSION}, which is here"
        advice = "pip install --upgrade tzdata: this host would plan them otherwise"
        yield CheckResult(WARN, SUBJECT, found, advice)
    if older:
        found = f"{_heads(older)} planned by older data than {VERSION}, which is here"
        advice = "a worker plans them again when it starts; or call `duly.schedules.replan()`"
        yield CheckResult(WARN, SUBJECT, found, advice, fix="replan")
    if not older and not newer:
        yield CheckResult(OK, SUBJECT, f"all next events by local time were planned by {VERSION}")


def _heads(many: int) -> str:
    more = " or more" if many == MOST_COUNTED else ""
    return f"{counted(many, 'next event')}{more} {'was' if many == 1 else 'were'}"
