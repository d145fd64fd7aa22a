"""Templates of schedules: settings under a name. Some common rules are built in; tenants store their own."""

from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Any

import msgspec

from duly.decide.retry import Retry
from duly.records.etags import template_tag
from duly.records.marks import Internal, LookedUp, told
from duly.records.wire.forms import AN_OBJECT, JsonForm
from duly.rules.policies import PolicyOptions
from duly.rules.recurrence import Rule
from duly.rules.templates import TEMPLATES


class TemplateSettings(PolicyOptions, total=False):
    """What a template may hold: any part of what ``schedules.put`` takes besides a name and a tenant."""

    rule: Rule | dict[str, Any] | None
    type: str | None
    payload: Any
    timezone: str | None
    target: dict[str, Any] | None
    retry: Retry | None
    tags: Collection[str] | None
    enabled: bool | None


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """Settings under a name, which a new schedule copies: a later change of a template changes no schedule."""

    name: str
    tenant: str
    settings_json: Annotated[str, AN_OBJECT]
    via: Internal[str | None] = None  # how it was last put: see decide/targets/origin.py
    created: datetime | None = None
    updated: datetime | None = None
    built_in: Annotated[LookedUp[bool], told("Whether it is part of Duly, and the same for all tenants")] = False
    meaning: Annotated[LookedUp[str | None], told("What the rule of a built-in template means")] = None
    new: Internal[LookedUp[bool]] = False  # whether the call that returns it has created it; never read back

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as JSON, as they were given."""
        return msgspec.json.decode(self.settings_json)  # type: ignore[no-any-return]

    @property
    def tag(self) -> str:
        """The ETag, as ``expected=`` takes it: it changes with every edit."""
        return template_tag(self)


def built_in_templates(tenant: str) -> dict[str, Template]:
    """The built-in templates by name, as a tenant sees them."""
    return {
        name: Template(
            name=name,
            tenant=tenant,
            settings_json=msgspec.json.encode({"rule": {"cron": one.cron}}).decode(),
            built_in=True,
            meaning=one.meaning,
        )
        for name, one in TEMPLATES.items()
    }


TEMPLATE_JSON = JsonForm(Template)
TEMPLATE_PAGE = TEMPLATE_JSON.page("Templates", "templates")
