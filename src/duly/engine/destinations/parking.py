"""Parked destinations. Their held events are released when the destination answers again, or when a person enables
it."""

from collections.abc import Sequence
from datetime import timedelta

from duly.decide.error_text import storable
from duly.decide.targets.targets import HTTP, WEBHOOK, whose_events
from duly.errors import StoreUnavailable
from duly.ports import TargetStore, TargetTransaction
from duly.records.event import Event

FIRST_PROBE = timedelta(seconds=30)
"""The wait before the first probe of a parked destination."""

LONGEST_PROBE_WAIT = timedelta(minutes=10)
"""The longest wait between probes: the return of a destination is noticed that late."""

RETRIES_EXAMINED = 10_000
"""Events of a lane, those ready next, that are examined for retries of a parked destination: that takes some 5 ms."""

CHUNK = 1000
"""Held events that are released in one transaction."""


async def open_again(store: TargetStore, tenant: str, parked: str, by: str, most: int | None = None) -> int:
    """Releases the held events of a destination that is open again; returns how many. If the process dies meanwhile, or
    stops after *most* events, the destination stays marked, and a worker continues."""
    many = 0
    while released := await store.release_parked(tenant, parked, whose_events(parked), CHUNK, by):
        many += released
        if most is not None and many >= most:
            return many
    await store.released(tenant, parked)
    return many


async def note(tx: TargetTransaction, tenant: str, destination: str, act: str, detail: str | None, by: str) -> None:
    """Adds to the history of a stored target; other destinations have no row and no history."""
    if "://" not in destination and destination and (found := await tx.target(tenant, destination)) is not None:
        await tx.note([(found.id, act, None if detail is None else storable(detail))], storable(by))


async def look_after_parked(store: TargetStore, lanes: Sequence[str], worker: str, lease: timedelta) -> list[Event]:
    """Continues unfinished releases, and claims the events that are due to probe parked destinations."""
    found = await store.unparking()
    for tenant, destination, to_be_tried in found:
        if not to_be_tried:
            await open_again(store, tenant, destination, worker)
    probes: list[Event] = []
    if not any(to_be_tried for _, _, to_be_tried in found) or not {WEBHOOK, HTTP} & set(lanes):
        return probes
    for tenant, destination in await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT):
        try:
            probes += await _claim_probe(store, (tenant, destination), lanes, worker, lease)
        except StoreUnavailable:
            if not probes:
                raise
            break  # the probes claimed so far must be started
    return probes


async def _claim_probe(
    store: TargetStore, parked: tuple[str, str], lanes: Sequence[str], worker: str, lease: timedelta
) -> list[Event]:
    async with store.begin() as tx:
        tried_with = await tx.claim_probe(*parked, lanes, worker, lease)
        if not tried_with and not await _is_needed(tx, parked):  # nothing waits for it: the next event will show
            await tx.reopen(*parked)
    return tried_with


async def _is_needed(tx: TargetTransaction, parked: tuple[str, str]) -> bool:
    """Whether an event is held for a destination, or waits for its next attempt. If the destination were opened before
    that attempt, the events that have failed would spend all their attempts on a receiver that is still down."""
    if await tx.is_awaited(*parked):
        return True
    for lane in (WEBHOOK, HTTP):
        if await tx.is_retried_later(*parked, lane, RETRIES_EXAMINED):
            return True
    return False
