"""``duly worker --health``: whether this process lives, and whether its worker is ready."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from duly.cli.processes.listener import Page, Pages, page
from duly.decide.workers import pass_limit
from duly.duly import Duly
from duly.errors import DulyError
from duly.signals import StoreDown, StoreUp
from duly.values.durations import format_duration

ANSWER_WITHIN_S = 0.8
"""Seconds in which the database, and each process, must answer: less than the second for which most probes wait."""

CACHED_FOR_S = 1.0
"""Seconds for which the database's answer is cached, however many probes ask."""

AskReadiness = Callable[[], Awaitable[str | None]]
"""Tells why something is not ready; None if it is."""


def health_pages(not_ready: AskReadiness) -> Pages:
    """The pages for probes of an orchestrator such as Kubernetes."""

    async def healthz() -> Page:
        return page(HTTPStatus.OK, status="alive")

    async def readyz() -> Page:
        if (reason := await not_ready()) is None:
            return page(HTTPStatus.OK, status="ready")
        return page(HTTPStatus.SERVICE_UNAVAILABLE, status="not ready", reason=reason)

    return {"/healthz": healthz, "/readyz": readyz}


class WorkerReadiness:
    """Whether the worker of this process is at work: its database answers, and its loop passes."""

    def __init__(self, duly: Duly) -> None:
        self._duly = duly
        self._outage = False
        self._asking = asyncio.Lock()
        self._answers, self._asked = False, -CACHED_FOR_S
        duly.observe(self._hear, StoreDown, StoreUp)

    def _hear(self, signal: StoreDown | StoreUp) -> None:
        self._outage = isinstance(signal, StoreDown)

    async def reason(self) -> str | None:
        """Why it is not ready."""
        worker, settings = self._duly.worker, self._duly.settings
        if worker is None or worker.stopping.is_asked:
            return "the worker stops" if worker else "no worker runs"
        if self._outage or not await self._database_answers():
            return "the database is not available"
        since, limit = worker.pulse.since, pass_limit(settings.poll_interval, settings.lease, settings.store_timeout)
        if since is None:
            return "the worker starts: its loop has not completed a pass yet"
        if since > limit:
            return f"the worker's loop has completed no pass for {format_duration(limit)}"
        return None

    async def _database_answers(self) -> bool:
        async with self._asking:
            if time.monotonic() - self._asked >= CACHED_FOR_S:
                self._answers = await self._ask()
                self._asked = time.monotonic()
        return self._answers

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._duly.now()
        except (DulyError, TimeoutError):
            return False
        return True
