"""What pages keep for a few seconds, so that many visitors and live updates cost little."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from time import monotonic
from typing import Any, TypeVar, cast

MOST_KEPT = 1000
"""Entries: of each tenant that somebody looks at, a few."""

T = TypeVar("T")


class PageCache:
    """Values by keys, each kept for a number of seconds from when it was computed."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._making: dict[Hashable, asyncio.Lock] = {}

    async def get(self, key: Hashable, seconds: float, make: Callable[[], Awaitable[T]]) -> T:
        """The kept value, or a new one; it is computed once, however many ask at the same time."""
        async with self._making.setdefault(key, asyncio.Lock()):
            made, value = self._kept.get(key, (-seconds, None))
            if monotonic() - made >= seconds or key not in self._kept:
                value = await make()
                self._kept[key] = monotonic(), value
                self._kept.move_to_end(key)
                if len(self._kept) > MOST_KEPT:
                    old, _ = self._kept.popitem(last=False)
                    self._making.pop(old, None)
            return cast(T, value)
