"""Parked destinations: what waits for one is released when it answers again, or when a person says so."""

from collections.abc import Sequence
from datetime import timedelta

from duly.decide.error_text import storable
from duly.decide.targets.targets import HTTP, WEBHOOK, whose_events
from duly.errors import StoreUnavailable
from duly.ports import TargetStore, TargetTransaction
from duly.records.event import Event

FIRST, MOST = timedelta(seconds=30), timedelta(minutes=10)
"""When a parked destination is tried again, and how far apart such tries get."""

CHUNK = 1000


async def open_again(store: TargetStore, tenant: str, parked: str, by: str, most: int | None = None) -> int:
    """Release what waits for a destination that is open again; how many. A process that dies meanwhile leaves it
    marked, and whoever looks after it goes on; so does who has released *most*."""
    many = 0
    while released := await store.release_parked(tenant, parked, whose_events(parked), CHUNK, by):
        many += released
        if most is not None and many >= most:
            return many
    await store.released(tenant, parked)
    return many


async def note(tx: TargetTransaction, tenant: str, destination: str, act: str, detail: str | None, by: str) -> None:
    """Stored targets have a history; other destinations have no row to tell it of."""
    if "://" not in destination and destination and (found := await tx.target(tenant, destination)) is not None:
        await tx.note([(found.id, act, None if detail is None else storable(detail))], storable(by))


async def look_after_parked(store: TargetStore, lanes: Sequence[str], worker: str, lease: timedelta) -> list[Event]:
    """Go on with what is being released, and claim what parked destinations are to be tried with."""
    found = await store.unparking()
    for tenant, destination, to_be_tried in found:
        if not to_be_tried:
            await open_again(store, tenant, destination, worker)
    probes: list[Event] = []
    if not any(to_be_tried for _, _, to_be_tried in found) or not {WEBHOOK, HTTP} & set(lanes):
        return probes
    for tenant, destination in await store.due_probes(FIRST, MOST):
        try:
            probes += await _claim_probe(store, (tenant, destination), lanes, worker, lease)
        except StoreUnavailable:
            if not probes:
                raise
            break  # what is claimed is to be started
    return probes


async def _claim_probe(
    store: TargetStore, parked: tuple[str, str], lanes: Sequence[str], worker: str, lease: timedelta
) -> list[Event]:
    async with store.begin() as tx:
        tried_with = await tx.claim_probe(*parked, lanes, worker, lease)
        if not tried_with and not await tx.is_awaited(*parked):  # the next event will show how it is
            await tx.reopen(*parked)
    return tried_with
