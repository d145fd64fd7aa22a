"""The verbs of event types: register them, and set their texts and default targets for a tenant."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Unpack

import msgspec

from duly.decide.calendars.event_types import EventType, EventTypes, default_text
from duly.decide.calendars.type_settings import changed_settings
from duly.decide.checks import name_problems
from duly.decide.targets.targets import named
from duly.engine.destinations.target_references import missing, target_missing
from duly.engine.series.follow_settings import follow_for_a_while
from duly.engine.series.put_users import Calendars
from duly.errors import Invalid
from duly.ports import UserStore
from duly.records.calendar.type_settings import TypeChanges, TypeSettings
from duly.records.event import HANDLER
from duly.verbs.marks import for_doors, reads


class SettableEventTypes(EventTypes):
    """``duly.event_types``: the registered event types, and what tenants set for them."""

    def __init__(
        self, types: Collection[EventType], store: UserStore, transaction_of: Callable[[Any], UserStore | None]
    ) -> None:
        super().__init__(types)
        self._store, self._transaction_of = store, transaction_of
        self._how: Calendars | None = None

    @for_doors
    def plan_with(self, how: Calendars) -> None:
        """Sets how users' events are planned, of which these types are a part."""
        self._how = how

    @reads
    async def settings(self, type: str, *, tenant: str = "default") -> TypeSettings:
        """What a tenant has set for an event type."""
        return await self._verbs(None).settings(type, tenant=tenant)

    async def update(
        self, type: str, *, tenant: str = "default", transaction: Any = None, **changes: Unpack[TypeChanges]
    ) -> TypeSettings:
        """Change a tenant's texts for an event type, by language, and the target of its users without one. Waiting
        events follow; those of many users do so in the background, by workers."""
        return await self._verbs(transaction).update(type, changes, tenant=tenant)

    def _verbs(self, transaction: Any) -> "SettingVerbs":
        assert self._how is not None
        return SettingVerbs(self._transaction_of(transaction) or self._store, self._how)


class SettingVerbs:
    """The verbs of a tenant's settings, on one store."""

    def __init__(self, store: UserStore, how: Calendars) -> None:
        self._store, self._how = store, how

    async def settings(self, type: str, *, tenant: str) -> TypeSettings:
        kind = self._known(type, tenant)
        found = {one.type: one for one in await self._store.type_settings_of([tenant])}
        return self._told(found.get(type) or TypeSettings(tenant=tenant, type=type), kind)

    async def update(self, type: str, changes: Mapping[str, Any], *, tenant: str) -> TypeSettings:
        kind = self._known(type, tenant)
        unlocked = TypeSettings(tenant=tenant, type=type, default_text=default_text(kind))
        async with self._store.begin() as tx:
            changed_settings(unlocked, changes, self._how.channels, await tx.now())  # before anything is stored
            stored = await tx.lock_type_settings(tenant, type)
            old = msgspec.structs.replace(stored, default_text=unlocked.default_text)
            new = changed_settings(old, changes, self._how.channels, await tx.now())
            if (name := named(new.target)) is not None and await missing(tx, [(tenant, name[1])]):
                raise Invalid([target_missing(new.target, tenant)])
            if new is not old:
                await tx.put_type_settings(new)
        if new is not old:
            await follow_for_a_while(self._store, self._how, tenant)
        return await self.settings(type, tenant=tenant)

    def _known(self, type: str, tenant: str) -> EventType:
        if problems := name_problems("tenant", tenant):
            raise Invalid(problems)
        return self._how.types.get(type)

    def _told(self, settings: TypeSettings, type: EventType) -> TypeSettings:
        """The settings with what is not stored: the type's own text, and warnings."""
        warnings: tuple[str, ...] = ()
        if settings.target_json is not None and f"{HANDLER}:{type.name}" in self._how.lanes:
            warnings = (
                f"this process has a handler for {type.name}, which does not get the events of this tenant: they go to "
                "the default target, or to the user's own",
            )
        return msgspec.structs.replace(settings, default_text=default_text(type), warnings=warnings)
