"""Forgets keys that have fired longer ago than they are remembered."""

import asyncio
import contextlib
from datetime import timedelta

from duly.errors import StoreError
from duly.ports import KeyMemory

FORGET_EVERY_S = 3600.0
"""Seconds between looks for keys that are no longer remembered."""

FORGOTTEN_AT_ONCE = 1000
"""Keys that are forgotten in one transaction: some milliseconds of work."""


async def forget_keys(store: KeyMemory, wait: timedelta) -> None:
    """Forgets keys that have fired longer ago than they are remembered: after a *wait*, and then every hour."""
    await asyncio.sleep(wait.total_seconds())
    while True:
        while await forget_some_keys(store):
            pass
        await asyncio.sleep(FORGET_EVERY_S)


async def forget_some_keys(store: KeyMemory) -> bool:
    """Forgets some keys; returns whether there are more. Those that cannot be deleted do not count as fired either."""
    with contextlib.suppress(StoreError):  # the worker's loop reports an outage; and the role may not be allowed to
        return await store.forget_keys(FORGOTTEN_AT_ONCE) == FORGOTTEN_AT_ONCE
    return False
