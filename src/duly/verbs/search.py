"""``duly.search``: one call that finds events, users, schedules and targets."""

from typing import Any

from duly.decide.checks import name_problems
from duly.errors import Invalid
from duly.ports import SearchPort
from duly.records.finding.search import SearchResult, check_most, read_search


async def search(store: SearchPort, text: Any, tenant: str, limit: int, path: str = "text") -> list[SearchResult]:
    """What a tenant has with this id, key or name, or with a name that begins so, the best match first. *path* is what
    the caller calls the text."""
    if problems := name_problems("tenant", tenant):
        raise Invalid(problems)
    check_most(limit)
    return await store.find_anything(tenant, read_search(text, path), limit=limit)
