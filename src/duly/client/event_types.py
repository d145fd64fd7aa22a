"""``client.event_types``: the event types that the server knows."""

import builtins
from typing import Any, NoReturn

import msgspec

from duly.client.connection import place
from duly.client.group import Group
from duly.client.refusals import here_only
from duly.records.wire.answers import KnownType, KnownTypes

TYPES = msgspec.json.Decoder(KnownTypes)


class EventTypes(Group):
    async def list(self) -> builtins.list[KnownType]:
        """The known event types, in the order of names."""
        return (await self._connection.ask("GET", place("event-types"), reads=TYPES)).event_types

    def register(self, type: Any) -> NoReturn:
        """Refused over HTTP: an event type is code."""
        raise here_only("event_types.register", "register it in the program that `duly serve --app` loads")
