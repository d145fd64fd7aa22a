"""Long polls: answers that wait until an event has ended, with limits on callers and time."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from duly.api.access.tenancy import tenancy
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.errors import DulyError
from duly.records.event import EVENT_JSON, TERMINAL, Event

LONGEST_WAIT_S = 60.0
"""Seconds that a request waits at most, whatever the client prefers."""

FIRST_POLL_INTERVAL_S = 0.05
"""Seconds between the first two reads of the event."""

LONGEST_POLL_INTERVAL_S = 0.5
"""Seconds to which the interval grows: a client that has waited long is in no hurry."""

MOST_WAITING = 100
"""Requests that may wait at once. A request above that is answered immediately."""

MOST_WAITING_OF_ONE_CALLER = 10
"""Requests of the same caller that may wait at once, so that one caller leaves room for others."""

_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,18})\"?\s*(?:$|[,;])", re.IGNORECASE)


class LongPoll:
    """The requests that are waiting."""

    def __init__(self) -> None:
        self._callers: Counter[str] = Counter()
        self._over = asyncio.Event()

    def end(self) -> None:
        """Ends all waits, because the server stops: each request is answered with the last known state."""
        self._over.set()

    @contextmanager
    def place(self, caller: str) -> Iterator[bool]:
        """Whether this caller may wait; counts it as waiting meanwhile."""
        room = self._callers.total() < MOST_WAITING and self._callers[caller] < MOST_WAITING_OF_ONE_CALLER
        free = room and not self._over.is_set()
        self._callers[caller] += free
        try:
            yield free
        finally:
            self._callers[caller] -= free
            if not self._callers[caller]:
                del self._callers[caller]

    async def pause(self, seconds: float) -> bool:
        """Sleeps; returns False when the server is stopping."""
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return True
        return False


async def until_ended(ask: ApiRequest, answer: ApiResponse) -> ApiResponse:
    """The answer once the event has ended, or when the time that the client prefers is over. The given answer is
    committed already, and is returned if the event cannot be read any more."""
    preferred = _WAIT.search(ask.request.headers.get("prefer", ""))
    if preferred is None:
        return answer
    waiting: LongPoll = ask.request.app.state.waiting
    with waiting.place(ask.caller.key or ask.tenant) as free:
        return await _wait(ask, answer, min(float(preferred[1]), LONGEST_WAIT_S), waiting) if free else answer


async def _wait(ask: ApiRequest, answer: ApiResponse, seconds: float, waiting: LongPoll) -> ApiResponse:
    deadline = time.monotonic() + seconds
    id = msgspec.json.decode(msgspec.json.encode(answer.body))["id"]
    look, applied = FIRST_POLL_INTERVAL_S, {"Preference-Applied": f"wait={seconds:g}"}
    over = False
    while not await ask.request.is_disconnected():
        try:
            async with tenancy(ask.own.duly, ask.caller, writes=False) as own:
                event = await own.events.get(id, tenant=ask.tenant)
        except DulyError:
            return answer
        answer = ApiResponse(EVENT_JSON.write(event), answer.status, answer.headers)
        left = deadline - time.monotonic()
        if _has_ended(event) or left <= 0:
            return ApiResponse(answer.body, answer.status, {**answer.headers, **applied})
        if over:
            break
        over = not await waiting.pause(min(look, left))  # then read once more: the last read may be old
        look = min(LONGEST_POLL_INTERVAL_S, look * 1.5)
    return answer


def _has_ended(event: Event) -> bool:
    return event.status in TERMINAL or (event.attempts > 0 and event.last_error is not None)
