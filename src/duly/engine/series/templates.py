"""Templates of schedules: checks them when they are put, and fills in a new schedule from one."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from duly.decide.retry import DEFAULT
from duly.decide.targets.commands import is_command
from duly.engine.destinations.target_references import check_target
from duly.engine.series.put_schedule import ScheduleDraft, checked, first_of_all, write
from duly.engine.series.rule_threads import evaluated
from duly.errors import Invalid, Problem
from duly.ports import ScheduleTransaction
from duly.records.template import Template
from duly.records.wire.schedule_reader import read_settings
from duly.rules.notation import zone_of
from duly.rules.policies import FIELDS as POLICIES

ANY_RULE = {"every": "366d"}
"""Stands for the rule of a template that has none, while the rest is checked."""

ANY_TYPE = "duly.template"
"""Stands for the type of a template that has none. (The checks of a type see a payload only together with its type.)"""


async def check_settings(
    tx: ScheduleTransaction, settings: Mapping[str, Any], channels: Collection[str], tenant: str
) -> None:
    """Raises Invalid with all problems of the settings of a template. What depends on the rest of a schedule, or on
    other schedules, is checked when one is put."""
    given = read_settings(settings, channels)
    draft = ScheduleDraft(
        name="template",
        rule=given.get("rule", ANY_RULE),
        type=given["type"] if "type" in given and "payload" in given else ANY_TYPE,
        payload=given.get("payload"),
        tenant=tenant,
        target=given.get("target"),
        retry=given.get("retry", DEFAULT),
        tags=given.get("tags"),
        timezone=given.get("timezone"),
        policies={policy: given[policy] for policy in POLICIES if policy in given},
    )
    asked = checked(draft, channels)
    await check_target(tx, asked.schedule)
    if "rule" in given:
        now = await tx.now()
        rule = await evaluated(asked.rule.anchored, now)
        await evaluated(first_of_all, msgspec.structs.replace(asked.schedule, rule_json=write(rule)), now)


def filled_in(
    given: Mapping[str, Any], policies: Mapping[str, Any], template: Template, *, over_http: bool
) -> dict[str, Any]:
    """The fields of a draft: those of a call, and where the call gives none, those of a template. A field of the call
    replaces the whole field of the template."""
    settings = read_settings(template.settings)
    said = {field: value for field, value in given.items() if value is not None}
    came_over_http = template.via is not None and not over_http
    if came_over_http and is_command(said.get("target")) and "payload" in settings and "payload" not in said:
        message = f"template {template.name!r:.60} was put over HTTP: give the command a payload of your own"
        raise Invalid([Problem("payload", message)])
    if zone_of(said.get("rule")) is not None:
        settings.pop("timezone", None)
    own = {policy: settings.pop(policy) for policy in POLICIES if policy in settings}
    fields = {**settings, **said}
    lacking = [
        Problem(field, f"is missing, and template {template.name!r:.60} does not have it")
        for field in ("rule", "type")
        if field not in fields
    ]
    if lacking:
        raise Invalid(lacking)
    if came_over_http and "target" in settings and "target" not in said:
        fields["via"] = template.via
    return {**fields, "policies": own | {policy: value for policy, value in policies.items() if value is not None}}
