"""All targets, and all parked destinations, read page by page."""

from duly.duly import Duly
from duly.records.target import Known, Target

BEGINNING = ("", "")
"""The place before the first tenant and name."""


async def all_targets(duly: Duly, tenant: str | None) -> list[Target]:
    found: list[Target] = []
    last = BEGINNING
    while page := await duly.targets.list(tenant=tenant, after=last):
        found += page
        last = (page[-1].tenant, page[-1].name)
    return found


async def all_parked(duly: Duly, tenant: str | None) -> list[Known]:
    found: list[Known] = []
    last = BEGINNING
    while page := await duly.targets.destinations(tenant=tenant, after=last):
        found += [known for known in page if known.parked is not None]
        last = (page[-1].tenant, page[-1].destination)
    return found
