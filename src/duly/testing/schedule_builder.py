"""A builder of schedules for tests."""

from typing import Any, Self

import msgspec

from duly.decide.retry import DEFAULT, Retry
from duly.duly import Duly
from duly.engine.series.put_schedule import ScheduleDraft, checked, write
from duly.errors import Misuse
from duly.records.schedule import Schedule
from duly.rules.notation import cron
from duly.rules.recurrence import Rule
from duly.testing.builders import Builder


class ScheduleBuilder(Builder):
    """Builds a schedule: every day at 9:00 in UTC.

    >>> ScheduleBuilder().with_name("digest").that_is_paused().build().enabled
    False
    """

    def with_id(self, id: str) -> Self:
        return self._with(id=id)

    def with_name(self, name: str) -> Self:
        return self._with(name=name)

    def with_tenant(self, tenant: str) -> Self:
        return self._with(tenant=tenant)

    def with_rule(self, rule: Rule) -> Self:
        return self._with(rule=rule)

    def with_timezone(self, name: str) -> Self:
        return self._with(timezone=name)

    def with_type(self, type: str) -> Self:
        return self._with(type=type)

    def with_payload(self, payload: Any) -> Self:
        return self._with(payload=payload)

    def with_target(self, target: dict[str, Any]) -> Self:
        return self._with(target=target)

    def with_tags(self, *tags: str) -> Self:
        return self._with(tags=tags)

    def with_retry(self, retry: Retry) -> Self:
        return self._with(retry=retry)

    def with_policies(self, **policies: Any) -> Self:
        """Policies of ``schedules.put``, such as ``overlap="skip"`` and ``exclude=["SAT"]``."""
        return self._with(policies={**self._said.get("policies", {}), **policies})

    def that_is_paused(self) -> Self:
        return self._with(enabled=False)

    @property
    def _draft(self) -> ScheduleDraft:
        said = {name: value for name, value in self._said.items() if name != "id"}
        usual: dict[str, Any] = {"name": "daily", "rule": cron("0 9 * * *"), "type": "daily", "retry": DEFAULT}
        return ScheduleDraft(**(usual | said))

    def build(self) -> Schedule:
        """The schedule as a store would return it. It is in no database."""
        draft = self._draft
        asked = checked(draft, list(draft.target or ()))
        enabled = draft.enabled is not False
        return msgspec.structs.replace(
            asked.schedule,
            id=self._said.get("id", asked.schedule.id),
            rule_json=write(asked.rule.anchored(self._now)),
            enabled=enabled,
            paused_since=None if enabled else self._now,
            created=self._now,
            updated=self._now,
        )

    async def add_to(self, duly: Duly) -> Schedule:
        """Puts the schedule into a database, which plans its next event; returns it. The store chooses the id."""
        if "id" in self._said:
            raise Misuse("the store chooses the id of a schedule: leave with_id() out")
        draft = self._draft
        return await duly.schedules.put(
            draft.name,
            draft.rule,
            draft.type,
            draft.payload,
            timezone=draft.timezone,
            tenant=draft.tenant,
            target=draft.target,
            retry=draft.retry,
            tags=draft.tags,
            enabled=draft.enabled,
            **draft.policies,
        )
