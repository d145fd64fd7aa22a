"""The verbs of templates: named settings of schedules, those that are built in and a tenant's own."""

import builtins
from collections.abc import Callable, Collection
from typing import Any, Unpack

import msgspec

from duly.decide.checks import check_page, name_problems
from duly.decide.targets.origin import refuse_act, refuse_edit, via_of
from duly.engine.series.templates import check_settings
from duly.errors import Invalid, NotFound, Problem, Stale
from duly.ports import PAGE_BYTES, ListPage, ScheduleStore, ScheduleTransaction, page_of
from duly.records.etags import check_tag
from duly.records.template import Template, TemplateSettings, built_in_templates
from duly.records.wire.schedule_reader import SETTINGS
from duly.records.wire.schedule_writer import schedule_body
from duly.rules.policies import FIELDS as POLICIES
from duly.rules.templates import TEMPLATES
from duly.verbs.marks import for_doors, reads


class Templates:
    """``duly.templates``: settings under a name, which ``schedules.put(…, template=…)`` copies."""

    def __init__(
        self, store: ScheduleStore, channels: Collection[str], transaction_of: Callable[[Any], ScheduleStore | None]
    ) -> None:
        self._store, self._channels, self._transaction_of = store, channels, transaction_of

    async def put(
        self,
        name: str,
        *,
        tenant: str = "default",
        expected: str | None = None,
        transaction: Any = None,
        **settings: Unpack[TemplateSettings],
    ) -> Template:
        """Create a template, or replace the one with this name: any part of what ``schedules.put`` takes. It changes no
        schedule that was made from it. With *expected*, raises Stale unless the template still has that tag."""
        problems = [*_name_problems(name), *name_problems("tenant", tenant)]
        try:
            written = settings_body(settings)
        except Invalid as error:
            raise Invalid([*problems, *error.problems]) from None
        said = msgspec.json.decode(msgspec.json.encode(written))
        via = via_of(self._channels)
        async with (self._transaction_of(transaction) or self._store).begin() as tx:
            try:
                await check_settings(tx, said, self._channels, tenant)
            except Invalid as error:
                problems += error.problems
            if problems:
                raise Invalid(problems)
            old = await tx.lock_template(tenant, name)
            _check(old, name, expected)
            if old is not None:
                refuse_edit(old.via, old.settings.get("target"), via, f"template {name!r:.60}")
            settings_json = msgspec.json.encode(said).decode()
            await tx.put_template(Template(name=name, tenant=tenant, settings_json=settings_json, via=via))
            stored = await tx.template(tenant, name)
        assert stored is not None
        return msgspec.structs.replace(stored, new=old is None)

    @reads
    async def get(self, name: str, *, tenant: str = "default") -> Template:
        """A template of the tenant, or a built-in one."""
        found = await _find(self._store, name, tenant)
        if found is None:
            raise NotFound(_missing(name, tenant))
        return found

    @reads
    async def list(
        self, *, tenant: str = "default", limit: int = 100, after: str | None = None
    ) -> builtins.list[Template]:
        """The templates that are built in and those of the tenant, in the order of names. For the next page, *after* is
        the last name of this one."""
        found: builtins.list[Template] = []
        check_page(limit)
        while True:
            page = await self.page(tenant=tenant, limit=limit - len(found), after=after)
            found += page.items
            if not page.more or len(found) >= limit:
                return found
            after = found[-1].name

    @for_doors
    @reads
    async def page(self, *, tenant: str = "default", limit: int = 100, after: str | None = None) -> ListPage[Template]:
        """A page of templates, limited in bytes as well."""
        check_page(limit)
        last = after or ""
        own = page_of(await self._store.list_templates(tenant, after=last, limit=limit + 1, within=PAGE_BYTES), limit)
        end = own.items[-1].name if own.more else None
        names = {one.name for one in own.items}
        built_in = [
            one
            for name, one in built_in_templates(tenant).items()
            if name > last and name not in names and (end is None or name < end)
        ]
        both = sorted([*own.items, *built_in], key=lambda one: one.name)
        return ListPage(both[:limit], own.more or len(both) > limit)

    async def delete(
        self, name: str, *, tenant: str = "default", expected: str | None = None, transaction: Any = None
    ) -> Template:
        """Delete a template of the tenant; return what it was. Schedules that were made from it stay as they are."""
        async with (self._transaction_of(transaction) or self._store).begin() as tx:
            found = await tx.lock_template(tenant, name) if _possible(name, tenant) else None
            if found is None:
                if name in TEMPLATES:
                    raise Invalid([Problem("name", f"{name!r} is a built-in template, which cannot be deleted")])
                raise NotFound(_missing(name, tenant))
            check_tag(f"template {name!r}", found.tag, expected)
            refuse_act(found.settings.get("target"), self._channels, f"template {name!r:.60}", "delete it")
            await tx.delete_template(tenant, name)
        return found


def settings_body(settings: TemplateSettings) -> dict[str, Any]:
    """The settings of a template as JSON, from arguments that may be objects of Python; unchecked."""
    if unknown := [one for one in settings if one not in SETTINGS]:
        known = ", ".join(SETTINGS)
        raise Invalid([Problem(one[:50], f"is no setting of a template; known: {known}") for one in unknown])
    given: dict[str, Any] = dict(settings)
    policies = {policy: given.pop(policy) for policy in POLICIES if policy in given}
    return schedule_body(dict.fromkeys(("rule", "timezone", "retry")) | given, policies, partial=True)


async def find_template(store: ScheduleTransaction, name: Any, tenant: str) -> Template:
    """The template that a schedule names; raises Invalid if there is none."""
    if problems := [*name_problems("template", name), *name_problems("tenant", tenant)]:
        raise Invalid(problems)
    found = await _find(store, name, tenant)
    if found is None:
        raise Invalid([Problem("template", _missing(name, tenant))])
    return found


async def _find(store: ScheduleTransaction, name: Any, tenant: str) -> Template | None:
    own = await store.template(tenant, name) if _possible(name, tenant) else None
    return own if own is not None else built_in_templates(tenant).get(str(name))


def _possible(name: Any, tenant: Any) -> bool:
    return not any((*name_problems("template", name), *name_problems("tenant", tenant)))


def _missing(name: Any, tenant: str) -> str:
    where = "" if tenant == "default" else f" in tenant {tenant!r:.60}"
    return f"there is no template {name!r:.60}{where}; `duly templates list` shows them"


def _name_problems(name: Any) -> builtins.list[Problem]:
    if name in TEMPLATES:
        return [Problem("name", f"{name!r} is a built-in template: take another name")]
    return [*name_problems("name", name)]


def _check(old: Template | None, name: str, expected: str | None) -> None:
    """Raises Stale if the template is not the one that the caller has seen."""
    if old is None and expected is not None:
        raise Stale(
            f"the template {name!r} has been deleted since you read it: to create it again, put it without expected= "
            "(If-Match)"
        )
    if old is not None:
        check_tag(f"template {name!r}", old.tag, expected)
