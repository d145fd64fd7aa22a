"""Answers that come when an event has ended: for how many callers, how long, and what ends the wait before."""

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

LONGEST_WAIT = 60.0
FIRST_LOOK, LAST_LOOK = 0.05, 0.5
"""Seconds between two looks: more and more, for whoever has waited long is in no hurry."""

MOST_WAITING, MOST_OF_ONE = 100, 10
"""Requests that wait at once, in all and of one caller. Who comes beyond is answered at once."""

_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,18})\"?\s*(?:$|[,;])", re.IGNORECASE)


class LongPoll:
    """Those who wait just now."""

    def __init__(self) -> None:
        self._callers: Counter[str] = Counter()
        self._over = asyncio.Event()

    def end(self) -> None:
        """The server stops: all are answered with what is known."""
        self._over.set()

    @contextmanager
    def place(self, caller: str) -> Iterator[bool]:
        """Whether there is one for this caller."""
        free = self._callers.total() < MOST_WAITING and self._callers[caller] < MOST_OF_ONE and not self._over.is_set()
        self._callers[caller] += free
        try:
            yield free
        finally:
            self._callers[caller] -= free
            if not self._callers[caller]:
                del self._callers[caller]

    async def pause(self, seconds: float) -> bool:
        """False when there is nothing more to wait for."""
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return True
        return False


async def until_ended(ask: ApiRequest, answer: ApiResponse) -> ApiResponse:
    """The answer when the event has ended, for as long as the caller prefers. What it tells is committed already: it
    stays the answer if the event cannot be looked at any more."""
    preferred = _WAIT.search(ask.request.headers.get("prefer", ""))
    if preferred is None:
        return answer
    waiting: LongPoll = ask.request.app.state.waiting
    with waiting.place(ask.caller.key or ask.tenant) as free:
        return await _wait(ask, answer, min(float(preferred[1]), LONGEST_WAIT), waiting) if free else answer


async def _wait(ask: ApiRequest, answer: ApiResponse, seconds: float, waiting: LongPoll) -> ApiResponse:
    deadline = time.monotonic() + seconds
    id = msgspec.json.decode(msgspec.json.encode(answer.body))["id"]
    look, applied = FIRST_LOOK, {"Preference-Applied": f"wait={seconds:g}"}
    over = False
    while not await ask.request.is_disconnected():
        try:
            async with tenancy(ask.own.duly, ask.tenant, writes=False) as own:
                event = await own.events.get(id, tenant=ask.tenant)
        except DulyError:
            return answer
        answer = ApiResponse(EVENT_JSON.write(event), answer.status, answer.headers)
        left = deadline - time.monotonic()
        if _has_ended(event) or left <= 0:
            return ApiResponse(answer.body, answer.status, {**answer.headers, **applied})
        if over:
            break
        over = not await waiting.pause(min(look, left))  # then a last look: the one before may be old by now
        look = min(LAST_LOOK, look * 1.5)
    return answer


def _has_ended(event: Event) -> bool:
    return event.status in TERMINAL or (event.attempts > 0 and event.last_error is not None)
