"""Whether the database is ready for requests: on PostgreSQL, they need a role of their own."""

import asyncio
import logging
import time
from contextlib import suppress

from duly.duly import Duly
from duly.errors import ApiNotReady, DulyError, RightsMissing, StoreUnavailable
from duly.observers.logs import Line
from duly.signals import Opened

log = logging.getLogger("duly.http")

EXAMINED_EVERY_S = 1.0
"""Seconds between two looks at a database that is not ready, however many requests arrive meanwhile."""


class Preparation:
    """Prepares the database when the Duly is opened, or before the first request. While it is not ready, looks again
    until an administrator has done what is missing; each new finding is logged once."""

    def __init__(self, duly: Duly) -> None:
        self._duly = duly
        self._ready = False
        self._finding: ApiNotReady | None = None
        self._examined = -EXAMINED_EVERY_S
        self._examining = asyncio.Lock()
        self._first: asyncio.Task[None] | None = None  # kept, or it could be collected as garbage
        duly.observe(lambda _: self._begin(), Opened)
        if duly.loop is not None:  # the application has opened it before
            with suppress(RuntimeError):  # there is no event loop in this thread: the first request begins
                self._begin()

    async def require(self) -> None:
        """Raises ApiNotReady, unless the database is ready."""
        if self._ready:
            return
        async with self._examining:
            if not self._ready:
                await self._examine()

    async def doubt(self, error: RightsMissing) -> None:
        """Looks again after a request that was refused a right: the role may have been dropped, or a right revoked.
        Raises ApiNotReady if so. If the right was granted again by this, the request may be repeated."""
        async with self._examining:
            if time.monotonic() - self._examined < EXAMINED_EVERY_S:
                return
            self._ready = False
            if await self._examine():
                raise StoreUnavailable(f"{error}; this is remedied") from error

    async def _examine(self) -> bool:
        """Prepares the database; returns whether anything was missing."""
        if self._finding is not None and time.monotonic() - self._examined < EXAMINED_EVERY_S:
            raise self._finding.with_traceback(None)
        try:
            remedied = await self._duly.store.prepare_rls_role()
        except ApiNotReady as error:
            self._tell(error)
            raise
        finally:
            self._examined = time.monotonic()
        if self._finding is not None:
            log.warning(Line("api.ready", {}))
        self._ready, self._finding = True, None
        return remedied

    def _tell(self, error: ApiNotReady) -> None:
        if self._finding is None or str(self._finding) != str(error):
            facts = {"error": error.found, "advice": error.advice, "sql": " ".join(error.sql)}
            log.error(Line("api.not_ready", {name: fact for name, fact in facts.items() if fact}))
        self._finding = error

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._ready, self._examining = False, asyncio.Lock()  # a lock belongs to one event loop
        self._first = loop.create_task(self._look())

    async def _look(self) -> None:
        try:
            await self.require()
        except DulyError as error:
            if not isinstance(error, ApiNotReady):  # which is logged already
                log.warning(Line("api.not_examined", {"error": str(error)}))


async def require_one_tenant(duly: Duly) -> None:
    """Raises ApiNotReady if the database has several tenants with DULY_API_ROLE=off. A role that is not ready is
    another matter: a server waits for an administrator to prepare it."""
    if duly.settings.api_role is None:
        with suppress(StoreUnavailable):  # each request looks again
            await duly.store.require_rls_role()
