"""What tests of users' events share: a handler that records, and a look at what is planned."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from duly import Duly, Event, OfUser, User
from duly.testing import ManualClock


def at(text: str) -> datetime:
    """``at("2026-03-15 13:00")``: in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def greetings(app: Duly, type: str = "birthday", also: Callable[[Event], Awaitable[Any]] | None = None) -> list[Event]:
    """The events of this type that are delivered from now on; *also* is done with each."""
    greeted: list[Event] = []

    @app.on(type)
    async def greet(event: Event) -> None:
        greeted.append(event)
        if also is not None:
            await also(event)

    return greeted


async def planned(app: Duly, user: User, type: str = "birthday") -> Event:
    """The one head of a user's series."""
    [head] = [head for head in await app.users.ahead(user.id) if head.type == type]
    assert head.head
    return head


async def due(app: Duly, user: User, type: str = "birthday") -> datetime:
    return (await planned(app, user, type)).due


async def acts(app: Duly, event: Event) -> list[str]:
    return [entry.act for entry in await app.events.history(event.id)]


async def fire(app: Duly, clock: ManualClock, user: User, type: str = "birthday") -> Event:
    """Move the clock to the next event of a user, let it be delivered, and tell of it."""
    head = await planned(app, user, type)
    clock.set(head.due)
    await app.tick()
    return await app.events.get(head.id)


async def everything_of(app: Duly, user: User) -> list[Event]:
    """The events of a user, also of one who is no more; the oldest first."""
    return (await app.events.find(OfUser(user.id), limit=1000))[::-1]
