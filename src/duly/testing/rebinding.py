"""A program's own ``Duly``, on a database of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from duly.config import read_settings
from duly.duly import Duly
from duly.errors import Misuse
from duly.testing.clock import ManualClock
from duly.testing.databases import prepare
from duly.testing.firings import recording
from duly.testing.memory_store import MemoryStore
from duly.testing.recorder import Sent
from duly.wiring import open_store

if TYPE_CHECKING:
    from duly.wiring import AnyStore

IN_MEMORY = "sqlite://"

SECRET_KEY = "a-key-of-tests-that-protects-nothing"
"""Signs and seals where the program has no key of its own."""


@contextmanager
def rebound(duly: Duly, url: str = IN_MEMORY, *, start: datetime | None = None) -> Iterator[Sent]:
    """Binds *duly*, which is not open, to an empty database for the time of a test: SQLite in memory, or a database on
    PostgreSQL that belongs to tests. Its clock stands still at *start* (else at the present), and its channels record
    what they are given. Its handlers, schedules in code, checks and event types stay; those registered meanwhile are
    forgotten at the end."""
    given: dict[str, Any] = {"database_url": read_settings({}, database_url=url).database_url}
    if not duly.settings.secret_key:
        given["secret_key"] = read_settings({}, secret_key=SECRET_KEY).secret_key
    settings = msgspec.structs.replace(duly.settings, **given)
    clock = ManualClock(start or datetime.now(UTC).replace(microsecond=0))
    store = _store(settings, clock)
    sent = Sent(duly.channels)
    with duly.rebound(store, settings, sent), recording(duly):
        yield sent


def _store(settings: Any, clock: ManualClock) -> "AnyStore":
    url = settings.database_url
    if not url.startswith("sqlite:"):
        prepare(url)
        return open_store(settings, clock)
    if url != IN_MEMORY:
        raise Misuse(
            f"{url} is a file: give {IN_MEMORY!r}, which is SQLite in memory, or the URL of a PostgreSQL database"
        )
    return MemoryStore(clock=clock, soon=settings.poll_interval, key_memory=settings.key_memory)
