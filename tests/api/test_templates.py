"""Templates of schedules: what they hold, what a schedule copies from them, and whose they are."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly import Duly, Invalid, NotFound, Retry, Schedule, Stale, cron, every, webhook
from duly.decide.retry import DEFAULT
from duly.rules.policies import Misfire
from tests.api.test_transactions import Oops

ALL: dict[str, Any] = {
    "rule": cron("0 9 * * MON-FRI"),
    "type": "report",
    "payload": {"format": "pdf"},
    "timezone": "Europe/Brussels",
    "target": webhook("https://hooks.example/in"),
    "retry": Retry(max_attempts=3),
    "enabled": False,
    "misfire": Misfire("skip", timedelta(minutes=5)),
    "exclude": ["12-25"],
    "jitter": timedelta(seconds=20),
}


def content(schedule: Schedule) -> dict[str, Any]:
    fields = ("rule_json", "type", "payload", "timezone", "target", "retry", "enabled", "policies")
    return {field: getattr(schedule, field) for field in fields}


async def test_a_schedule_from_a_template_is_as_if_all_had_been_said(app: Duly) -> None:
    await app.templates.put("all", **ALL)
    copied = await app.schedules.put("copied", template="all")
    assert content(copied) == content(await app.schedules.put("said", **ALL))
    assert content(await app.every("every", every("1h"), "x", template="all")) == {
        **content(copied),
        "rule_json": (await app.schedules.get("every")).rule_json,
        "type": "x",
    }


async def test_what_is_said_wins_and_a_field_is_replaced_whole(app: Duly) -> None:
    await app.templates.put("all", **ALL)
    done = await app.schedules.put(
        "own",
        cron("0 7 * * *", timezone="Asia/Tokyo"),
        payload={},
        template="all",
        target=webhook("https://hooks.example/own"),
        retry=DEFAULT,
        enabled=True,
        misfire={"policy": "skip"},
        exclude=["SAT"],
    )
    assert (done.timezone, done.payload, done.enabled, done.retry) == ("Asia/Tokyo", {}, True, DEFAULT)
    assert done.policies.misfire == Misfire("skip")
    assert done.policies.exclude == ("SAT",)
    assert done.policies.jitter == timedelta(seconds=20)
    assert done.target == webhook("https://hooks.example/own")


async def test_a_later_change_of_a_template_changes_no_schedule(app: Duly) -> None:
    made = await app.templates.put("t", type="report", rule=every("1h"))
    before = await app.schedules.put("s", template="t")
    changed = await app.templates.put("t", type="other", expected=made.tag)
    assert (made.new, changed.new, changed.settings) == (True, False, {"type": "other"})
    assert await app.templates.delete("t") == msgspec.structs.replace(changed, new=False)
    assert content(await app.schedules.get("s")) == content(before)
    with pytest.raises(Invalid, match="template: there is no template 't'"):
        await app.schedules.put("s", template="t")


async def test_what_is_missing_in_both_is_told(app: Duly) -> None:
    await app.templates.put("t", misfire="skip")
    with pytest.raises(Invalid) as refused:
        await app.schedules.put("s", template="t")
    assert [problem.path for problem in refused.value.problems] == ["rule", "type"]
    with pytest.raises(Invalid) as refused:
        await app.schedules.put("s")
    assert {problem.path for problem in refused.value.problems} == {"rule", "type"}


async def test_all_problems_of_a_template_are_told_when_it_is_put(app: Duly) -> None:
    wrong: dict[str, Any] = {
        "rule": {"cron": "0 0 30 2 *"},
        "type": "",
        "timezone": "Mars/Olympus",
        "target": {"pigeon": "x"},
        "misfire": "never",
        "max_concurrent": 0,
    }
    with pytest.raises(Invalid) as refused:
        await app.templates.put(" ", **wrong)
    paths = [problem.path for problem in refused.value.problems]
    assert {"name", "type", "timezone", "target", "misfire.policy", "max_concurrent"} <= set(paths)
    for settings in (
        {"rule": {"cron": "0 0 30 2 *"}},
        {"rule": {"at": "2020-01-01T00:00:00Z"}},
        {"target": webhook(target="nowhere")},
        {"colour": "red"},
        {"tenant_name": "x"},
    ):
        with pytest.raises(Invalid):
            await app.templates.put("t", **settings)
    with pytest.raises(Invalid, match="built-in template"):
        await app.templates.put("hourly", type="x")
    assert [one for one in await app.templates.list() if not one.built_in] == []


async def test_checks_of_a_type_see_a_template_with_a_payload_and_wait_for_one_without(app: Duly) -> None:
    @app.check("invoice")
    def has_number(timer: Any) -> Any:
        if "number" not in (timer.payload or {}):
            yield "has no number"

    await app.templates.put("bare", type="invoice", rule=every("1h"))
    with pytest.raises(Invalid, match="has no number"):
        await app.templates.put("wrong", type="invoice", payload={})
    with pytest.raises(Invalid, match="has no number"):
        await app.schedules.put("s", template="bare")
    await app.schedules.put("s", template="bare", payload={"number": 1})


async def test_local_bounds_of_a_template_are_in_the_zone_of_the_schedule(app: Duly) -> None:
    await app.templates.put("t", type="x", rule={"cron": "0 9 * * *"}, start="2027-01-01T00:00:00")
    tokyo = await app.schedules.put("tokyo", template="t", timezone="Asia/Tokyo")
    assert tokyo.policies.start is not None
    assert tokyo.policies.start.isoformat() == "2026-12-31T15:00:00+00:00"


async def test_built_in_templates_are_listed_and_used_beside_own_ones(app: Duly) -> None:
    for name in ("a", "i", "zz"):
        await app.templates.put(name, type=name)
    names = [one.name for one in await app.templates.list()]
    assert names == sorted(names)
    assert {"a", "i", "zz", "hourly", "weekday-mornings"} <= set(names)
    paged, last = [], None
    while page := await app.templates.list(limit=2, after=last):
        paged += [one.name for one in page]
        last = page[-1].name
    assert paged == names
    hourly = await app.templates.get("hourly")
    assert (hourly.built_in, hourly.settings, hourly.meaning) == (
        True,
        {"rule": {"cron": "0 * * * *"}},
        "every hour, on the hour",
    )
    assert (await app.schedules.put("s", type="x", template="hourly")).rule["cron"] == "0 * * * *"
    with pytest.raises(Invalid, match="cannot be deleted"):
        await app.templates.delete("hourly")


async def test_a_page_of_large_templates_is_cut_and_continued(app: Duly) -> None:
    for number in range(12):
        await app.templates.put(f"large-{number:02}", type="x", payload="x" * 1_000_000)
    first = await app.templates.page(limit=100)
    assert first.more
    assert 12 <= len(first.items) < 25
    everything = await app.templates.list(limit=100)
    assert len(everything) == 25
    assert [one.name for one in everything] == sorted(one.name for one in everything)


async def test_a_template_is_its_tenants_alone(app: Duly) -> None:
    await app.templates.put("t", type="x", rule=every("1h"), tenant="acme")
    assert "t" not in [one.name for one in await app.templates.list(tenant="rival")]
    with pytest.raises(NotFound, match="in tenant 'rival'"):
        await app.templates.get("t", tenant="rival")
    with pytest.raises(NotFound):
        await app.templates.delete("t", tenant="rival")
    with pytest.raises(Invalid, match="there is no template 't'"):
        await app.schedules.put("s", template="t", tenant="rival")
    assert (await app.schedules.put("s", template="t", tenant="acme")).tenant == "acme"


async def test_a_change_that_is_based_on_an_older_template_is_refused(app: Duly) -> None:
    first = await app.templates.put("t", type="x")
    second = await app.templates.put("t", type="y")
    assert first.tag != second.tag
    for stale in (first.tag, "no tag"):
        with pytest.raises(Stale):
            await app.templates.put("t", type="z", expected=stale)
        with pytest.raises(Stale):
            await app.templates.delete("t", expected=stale)
    await app.templates.delete("t", expected=second.tag)
    with pytest.raises(Stale, match="has been deleted"):
        await app.templates.put("t", type="z", expected=second.tag)


async def test_a_template_commits_with_the_callers_transaction(app: Duly) -> None:
    async def put() -> None:
        async with app.transaction() as tx:
            await app.templates.put("t", type="x", rule=every("1h"), transaction=tx)
            await app.schedules.put("s", template="t", transaction=tx)
            raise Oops

    async def delete() -> None:
        async with app.transaction() as tx:
            await app.templates.delete("t", transaction=tx)
            raise Oops

    with pytest.raises(Oops):
        await put()
    with pytest.raises(NotFound):
        await app.templates.get("t")
    await app.templates.put("t", type="x")
    with pytest.raises(Oops):
        await delete()
    assert (await app.templates.get("t")).settings == {"type": "x"}
