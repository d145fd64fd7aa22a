"""Dead letters, as they come about: claimed by a worker, and rejected."""

from typing import Any

from duly.decide.targets.targets import destination_of
from tests.conftest import AnyStore
from tests.make import LEASE, make_new, rejected

LANES = ("handler:greet", "handler:other", "mail", "webhook", "http")


async def dead(store: AnyStore, count: int = 1, *, error: str = "410", **fields: Any) -> list[str]:
    """So many events that have failed; their ids, oldest first."""
    fields.setdefault("destination", destination_of(fields.get("target")))
    ids = await store.add([make_new(**fields) for _ in range(count)])
    await reject(store, count, error)
    return sorted(ids)


async def reject(store: AnyStore, most: int = 1000, error: str = "410") -> None:
    """All that is ready fails."""
    events = await store.claim("w1", dict.fromkeys(LANES, most), LEASE)
    await store.settle([rejected(event, error) for event in events], "w1")
