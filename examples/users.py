"""Birthdays at 9:00 where each user is, and an event type of our own: the day on which a user's cat moved in.

    python examples/users.py

The clock is one that we move, so that two years pass in a moment.
"""

import asyncio
from datetime import UTC, date, datetime, time
from typing import Any

from duly import Duly, Event, Rule, User, yearly
from duly.testing import ManualClock

clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
duly = Duly("sqlite://", clock=clock, lease="1d")


@duly.event_types.register
class CatDay:
    name = "cat_day"
    depends_on = ("first_name", "attributes.cat", "attributes.cat_since")

    def rule(self, user: User, at: time) -> Rule | None:
        since = user.attributes.get("cat_since")
        return yearly(date.fromisoformat(since), at=at) if since else None

    def message(self, user: User) -> str:
        return f"{user.first_name}, give {user.attributes['cat']} something nice today"

    def target(self, user: User) -> dict[str, Any] | None:
        return user.target


@duly.on("birthday")
@duly.on("cat_day")
async def tell(event: Event) -> None:
    assert event.local is not None
    print(f"{event.local:%Y-%m-%d %H:%M} in {event.timezone}: {event.payload['message']}")


async def main() -> None:
    async with duly:
        ada = await duly.users.add(
            first_name="Ada",
            last_name="Lovelace",
            date_of_birth=date(1990, 12, 10),
            timezone="Europe/London",
            attributes={"cat": "Puff", "cat_since": "2024-03-01"},
        )
        for year in (2026, 2027):
            while (next := (await duly.users.ahead(ada.id))[0]).due.year == year:
                clock.set(next.due)
                await duly.tick()
            await duly.users.update(ada.id, timezone="Asia/Kathmandu", last_name="King")  # what is planned follows


asyncio.run(main())
