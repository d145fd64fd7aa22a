"""``client.event_types``: the event types that the server knows, and what the tenant has set for them."""

import builtins
from collections.abc import Mapping
from typing import Any, NoReturn, Unpack

import msgspec

from duly.client.protocol.connection import place
from duly.client.protocol.group import Group
from duly.client.protocol.refusals import here_only, refuse_transaction
from duly.decide.checks import name_problems, write_json
from duly.errors import Invalid, NotFound, Problem
from duly.records.calendar.type_settings import TYPE_SETTINGS_JSON, TypeChanges, TypeSettings
from duly.records.wire.answers import KnownType, KnownTypes

TYPES = msgspec.json.Decoder(KnownTypes)


class EventTypes(Group):
    async def list(self) -> builtins.list[KnownType]:
        """The known event types, in the order of names."""
        return (await self._connection.ask("GET", place("event-types"), reads=TYPES)).event_types

    async def settings(self, type: str, *, tenant: str | None = None) -> TypeSettings:
        """What a tenant has set for an event type."""
        self._check(tenant)
        return await self._connection.ask("GET", _place(type), reads=TYPE_SETTINGS_JSON)

    async def update(
        self, type: str, *, tenant: str | None = None, transaction: Any = None, **changes: Unpack[TypeChanges]
    ) -> TypeSettings:
        """Change a tenant's texts for an event type, by language, and the target of its users without one. Waiting
        events follow; those of many users do so in the background, by workers."""
        self._check(tenant)
        refuse_transaction(transaction)
        return await self._connection.ask("PUT", _place(type), _body(changes), reads=TYPE_SETTINGS_JSON, once=True)

    def register(self, type: Any) -> NoReturn:
        """Refused over HTTP: an event type is code."""
        raise here_only("event_types.register", "register it in the program that `duly serve --app` loads")

    def remove(self, name: str) -> NoReturn:
        """Refused over HTTP: an event type is code."""
        raise here_only("event_types.remove", "remove it in the program that `duly serve --app` loads")

    def removed(self) -> NoReturn:
        """Refused over HTTP: types are removed where Duly runs."""
        raise here_only("event_types.removed", "call it in the program that `duly serve --app` loads")

    def get(self, name: str) -> NoReturn:
        """Refused over HTTP: an event type is code."""
        raise here_only("event_types.get", "call event_types.settings for what the tenant has set for it")

    def names(self) -> NoReturn:
        """Refused over HTTP: call ``list``, which waits for the answer."""
        raise here_only("event_types.names", "call event_types.list")


def _body(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a change. None is sent as null: it removes a value."""
    written = {name: write_json(value, name) for name, value in changes.items()}
    if problems := [one for one in written.values() if isinstance(one, Problem)]:
        raise Invalid(problems)
    return {name: msgspec.Raw(str(one).encode()) for name, one in written.items()}


def _place(type: str) -> str:
    if name_problems("type", type):
        raise NotFound(f"there is no event type {type!r:.60}")
    return place("event-types", type)
