"""The names of schedules by their ids: events know the one, and the API asks for the other."""

from collections.abc import Iterable

from duly.client.connection import ServerConnection, place
from duly.client.paging import all_pages
from duly.records.schedule import SCHEDULE_PAGE


class ScheduleNames:
    """Looked for in the list of schedules, as far as need be. A schedule keeps its name for as long as it is there."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    async def of(self, ids: Iterable[str]) -> dict[str, str]:
        left = set(ids)
        found: dict[str, str] = {}
        if left:
            async for page in all_pages(self._connection, place("schedules"), SCHEDULE_PAGE):
                found |= {one.id: one.name for one in page.items if one.id in left}
                if left <= found.keys():
                    break
        return found
