"""Read users while others are stored, and check them without storing any."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from datetime import UTC, date, datetime
from itertools import islice
from typing import Any

import msgspec

from duly.core.users import REQUIRED, User, changed_user, new_user
from duly.errors import Invalid, Problem
from duly.flow.ids import new_id
from duly.flow.import_users import CHUNK, MOST_REMEMBERED, Imported, Line, Refused, Telling
from duly.flow.put_users import Calendars, first_heads

AT_ONCE = 250
READ_AHEAD = 8


class Reading:
    """Lines that a thread of its own reads: while a pipe keeps that one waiting, what came before is stored."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self._read: asyncio.Queue[list[Line]] = asyncio.Queue()
        self._room = threading.Semaphore(READ_AHEAD)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bug: Exception | None = None
        self.error: OSError | None = None  # why it ended before the end
        self.stopped = False

    async def rows(self) -> AsyncIterator[Line]:
        self._loop = asyncio.get_running_loop()
        # A daemon, for nobody can end a read that waits for somebody's keyboard.
        threading.Thread(target=self._go, name="duly-reading", daemon=True).start()
        while (batch := await self._read.get()) and not self.stopped:
            self._room.release()
            for line in batch:
                yield line
        if self._bug is not None:
            raise self._bug

    def stop(self) -> None:
        """Read no more. Called in the loop; whoever reads the rows finds that they end."""
        self.stopped = True
        self._read.put_nowait([])
        self._room.release()

    def _go(self) -> None:
        try:
            while self._room.acquire() and not self.stopped and self._read_some():
                pass
        except OSError as error:
            self.error = error
        except Exception as error:
            self._bug = error
        self._tell([])

    def _read_some(self) -> bool:
        batch: list[Line] = []
        try:
            batch.extend(islice(self._lines, AT_ONCE))
        finally:  # also what came before an error
            if batch:
                self._tell(batch)
        return bool(batch)

    def _tell(self, batch: list[Line]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants it any more
            self._loop.call_soon_threadsafe(self._read.put_nowait, batch)


async def rehearse(rows: AsyncIterable[Line], tenant: str, how: Calendars, telling: Telling) -> Imported:
    """What an import would refuse, as far as that can be told without the users who are there already."""
    good, seen, last, now = 0, 0, 0, datetime.now(UTC)
    refused: list[Refused] = []
    async for line in rows:
        seen, last = seen + 1, line.number
        try:
            first_heads(_user(line.fields, tenant, how, now), how, now)
            good += 1
        except Invalid as error:
            refused.append(Refused(line.number, error.problems))
            telling.refused(refused[-1])
            del refused[MOST_REMEMBERED:]
        if seen % CHUNK == 0:
            telling.progress(_so_far(good, seen, last, refused))
            await asyncio.sleep(0)
    done = _so_far(good, seen, last, refused)
    telling.progress(done)
    return done


def _so_far(good: int, seen: int, last: int, refused: list[Refused]) -> Imported:
    return Imported(added=good, refused=seen - good, last=last, problems=tuple(refused))


SOMEBODY = User(id="", tenant="", first_name="x", last_name="x", date_of_birth=date(2000, 1, 1), timezone="UTC")


def _user(fields: Mapping[str, Any] | Problem, tenant: str, how: Calendars, now: datetime) -> User:
    """A row with a key that does not say all of a user is taken for a change of one."""
    if isinstance(fields, Problem):
        raise Invalid([fields])
    if fields.get("key") is not None and any(field not in fields for field in REQUIRED):
        somebody = msgspec.structs.replace(SOMEBODY, id=new_id(), tenant=tenant)
        return changed_user(somebody, fields, how.channels, now)
    return new_user(fields, new_id(), tenant, how.channels, now)
