"""``client.templates``: named settings of schedules."""

import builtins
from collections.abc import AsyncIterator
from typing import Any, Unpack

from duly.client.protocol.connection import place
from duly.client.protocol.group import Group
from duly.client.protocol.paging import all_pages, up_to
from duly.client.protocol.refusals import refuse_transaction
from duly.client.schedules.schedules import if_match
from duly.decide.checks import name_problems
from duly.errors import Invalid, NotFound
from duly.records.template import TEMPLATE_JSON, TEMPLATE_PAGE, Template, TemplateSettings
from duly.verbs.schedules.templates import settings_body


class Templates(Group):
    """The verbs of ``duly.templates``."""

    async def put(
        self,
        name: str,
        *,
        tenant: str | None = None,
        expected: str | None = None,
        transaction: Any = None,
        **settings: Unpack[TemplateSettings],
    ) -> Template:
        """Create a template, or replace the one with this name: any part of what ``schedules.put`` takes. It changes no
        schedule that was made from it. With *expected*, raises Stale unless the template still has that tag."""
        self._check(tenant)
        refuse_transaction(transaction)
        if problems := name_problems("name", name):
            raise Invalid(problems)
        body, headers = settings_body(settings), if_match(expected)
        return await self._connection.ask(
            "PUT", place("templates", name), body, reads=TEMPLATE_JSON, once=True, headers=headers
        )

    async def get(self, name: str, *, tenant: str | None = None) -> Template:
        """A template of the tenant, or a built-in one."""
        self._check(tenant)
        return await self._connection.ask("GET", _place(name), reads=TEMPLATE_JSON)

    async def list(
        self, *, tenant: str | None = None, limit: int = 100, after: str | None = None
    ) -> builtins.list[Template]:
        """The templates that are built in and those of the tenant, in the order of names. For the next page, *after* is
        the last name of this one."""
        self._check(tenant)
        return await up_to(limit, self._connection, place("templates"), TEMPLATE_PAGE, after=after)

    async def all(self, *, tenant: str | None = None) -> AsyncIterator[Template]:
        """Every template, in the order of names."""
        self._check(tenant)
        async for page in all_pages(self._connection, place("templates"), TEMPLATE_PAGE):
            for template in page.items:
                yield template

    async def delete(
        self, name: str, *, tenant: str | None = None, expected: str | None = None, transaction: Any = None
    ) -> Template:
        """Delete a template of the tenant; return what it was. Schedules that were made from it stay as they are."""
        self._check(tenant)
        refuse_transaction(transaction)
        return await self._connection.ask(
            "DELETE", _place(name), reads=TEMPLATE_JSON, once=True, headers=if_match(expected)
        )


def _place(name: str) -> str:
    """The path of a template; raises NotFound without a request if no template can have this name."""
    if name_problems("name", name):
        raise NotFound(f"there is no template {name!r:.60}")
    return place("templates", name)
