"""Creating and editing schedules: what the form says is stored, what it prints does the same, and what is wrong is told
at its field."""

import html
import re
from typing import Any

import msgspec
import pytest

from duly import Duly, Retry, cron, every, http, nats, webhook
from duly.records.schedule import SCHEDULE_JSON, Schedule
from duly.records.wire.schedule_reader import editable
from tests.conftest import OpenDuly
from tests.dashboard.doing_the_same import in_a_shell, offered, over_http
from tests.dashboard.visiting import OpenVisitor, Page, Visitor

WICKED = "<img src=x onerror=alert(1)>'\"&{{7*7}}"
NAMED: dict[str, Any] = {"name": "report", "type": "report.weekly"}
FORMS: dict[str, dict[str, Any]] = {
    "cron": {"cron": "0 9 * * MON", "timezone": "Europe/Brussels"},
    "every": {"kind": "every", "every": "15m", "every_start": "2026-03-01T00:00:00Z", "payload": '{"a": [1, 2.5]}'},
    "rrule": {"kind": "rrule", "rrule": "FREQ=MONTHLY;BYDAY=-1FR", "rrule_start": "2026-01-01T18:00:00"},
    "yearly": {"kind": "yearly", "yearly": "02-29", "yearly_at": "08:30", "leap": "mar1", "timezone": "Asia/Tokyo"},
    "yearly since": {"kind": "yearly", "yearly": "12-24", "since": "2027"},
    "at": {"kind": "at", "at": "2026-12-01T09:00:00", "timezone": "America/New_York"},
    "webhook": {"cron": "@daily", "target_kind": "webhook", "webhook_url": "https://example.com/hook?x=1&y='2'"},
    "cloudevents": {
        "cron": "@daily",
        "target_kind": "webhook",
        "webhook_url": "https://example.com/",
        "webhook_format": "cloudevents",
    },
    "http": {
        "cron": "@daily",
        "target_kind": "http",
        "http_url": "https://example.com/api",
        "http_method": "put",
        "http_headers": '{"X-Who": "it\'s me"}',
        "http_body": '{"n": 1}',
    },
    "broker": {"cron": "@daily", "target_kind": "other", "target_json": '{"nats": "orders.due"}'},
    "paused": {"cron": "@daily", "enabled": None},
    "policies": {
        "cron": "0 9 * * *",
        "misfire": "skip",
        "tolerance": "5m",
        "overlap": "queue",
        "max_concurrent": "3",
        "jitter": "30s",
        "expires": "2h",
        "exclude": "SAT\n2026-12-24, 12-25",
        "start": "2026-02-01",
        "end": "2027-02-01T10:00:00",
        "gap": "skip",
        "dst_overlap": "both",
        "mode": "shadow",
        "timezone": "Europe/Brussels",
    },
    "retries": {"cron": "@hourly", "max_attempts": "5", "base": "10s", "factor": "2.5", "max": "30m"},
    "text": {
        "name": "-odd 'name' $HOME `x`",
        "type": "a'b",
        "cron": "@daily",
        "payload": '{"say": "it\'s $5 \\"x\\""}',
    },
    "tags": {"cron": "@daily", "tags": "nightly, eu"},
    "catch up": {"cron": "@daily", "misfire": "all", "limit": "7"},
}


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    return await duly(broker_allow="nats:orders.>", secret_key="a key of at least thirty-two characters")


@pytest.fixture
async def visitor(app: Duly, visiting: OpenVisitor) -> Visitor:
    return await visiting(app)


def filled(form: Page, fields: dict[str, Any]) -> dict[str, Any]:
    """What a browser sends: a checkbox that is not checked is left out."""
    return {name: value for name, value in {**form.fields, **fields}.items() if value is not None}


async def sent(visitor: Visitor, path: str, status: int = 303, **fields: Any) -> Page:
    form = await visitor.get(path)
    return await visitor.post(path, status=status, **filled(form, fields))


async def before(visitor: Visitor, path: str, **fields: Any) -> Page:
    form = await visitor.get(path)
    return await visitor.post(f"{path}?before=1", status=200, **filled(form, fields))


def content(schedule: Schedule) -> dict[str, Any]:
    """All that people can set; the start of an interval that nobody has given is the instant of its creation."""
    said = editable(schedule)
    return said | {"rule": {k: v for k, v in said["rule"].items() if (k, said["rule"].get("every")) != ("start", "1h")}}


@pytest.mark.parametrize("case", FORMS)
async def test_a_form_its_command_and_its_request_make_the_same_schedule(
    case: str, app: Duly, visitor: Visitor, url: str
) -> None:
    fields = NAMED | FORMS[case]
    name = fields["name"]
    page = await before(visitor, "/new-schedule", **fields)
    await sent(visitor, "/new-schedule", **fields)
    by_form = content(await app.schedules.get(name))
    await app.schedules.delete(name)
    await over_http(page, visitor, status=201)
    assert content(await app.schedules.get(name)) == by_form
    await app.schedules.delete(name)
    if case != "broker":  # the command line asks nobody for leave to use a broker, and has another setting here
        assert name in await in_a_shell(page, url)
        assert content(await app.schedules.get(name)) == by_form


async def test_what_the_form_can_say_in_options_is_printed_in_options(visitor: Visitor) -> None:
    page = await before(visitor, "/new-schedule", **NAMED, cron="0 9 * * MON", timezone="Europe/Brussels")
    assert offered(page, "act-command") == (
        "duly schedules put report --type report.weekly --cron '0 9 * * MON' --timezone Europe/Brussels --enabled"
    )


async def test_the_next_ten_are_shown_in_both_zones_while_somebody_types(visitor: Visitor) -> None:
    visitor.client.cookies.set("duly_zone", "America/New_York")
    page = await before(visitor, "/new-schedule", cron="30 2 * * *", timezone="Europe/Brussels", start="2026-03-28")
    assert page.html.count("<tr>") == 11
    for said in ("2026-03-28 02:30:00", "Fri 27 Mar 2026 21:30:00", "it fires right after the gap", "Europe/Brussels"):
        assert said in page.text


async def test_a_rule_that_cannot_be_read_yet_says_why_while_somebody_types(visitor: Visitor) -> None:
    page = await before(visitor, "/new-schedule", cron="0 25 * * *", timezone="Mars/Olympus")
    assert "25 is out of range: 0 to 23" in page.text
    assert "'Mars/Olympus' is not a time zone" in page.text


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": ""}, "is missing"),
    "type": ({"type": ""}, "must have 1 to 200 characters"),
    "cron": ({"cron": "0 25 * * *"}, "25 is out of range"),
    "every": ({"kind": "every", "every": "1 fortnight"}, "is not a duration"),
    "every_start": ({"kind": "every", "every": "1h", "every_start": "soon"}, "is not an instant"),
    "rrule": ({"kind": "rrule", "rrule": "FREQ=NEVER"}, "must be one of"),
    "rrule_start": ({"kind": "rrule", "rrule": "FREQ=DAILY", "rrule_start": "x"}, "is not an instant"),
    "yearly": ({"kind": "yearly", "yearly": "02-30"}, "is not a month and a day"),
    "yearly_at": ({"kind": "yearly", "yearly": "02-28", "yearly_at": "25:00"}, "is not a time of day"),
    "leap": ({"kind": "yearly", "yearly": "02-29", "leap": "never"}, "must be one of"),
    "since": ({"kind": "yearly", "yearly": "02-28", "since": "soon"}, "must be a whole number"),
    "at": ({"kind": "at", "at": "tomorrow"}, "is not an instant"),
    "kind": ({"kind": "moon"}, "must be one of"),
    "timezone": ({"timezone": "Mars/Olympus"}, "is not a time zone"),
    "payload": ({"payload": "{bad"}, "is not valid JSON"),
    "webhook_url": ({"target_kind": "webhook", "webhook_url": "ftp://x"}, "is not an http or https URL"),
    "webhook_format": (
        {"target_kind": "webhook", "webhook_url": "https://e.example", "webhook_format": "morse"},
        "expected one of",
    ),
    "http_url": ({"target_kind": "http", "http_url": ""}, "is not an http or https URL"),
    "http_method": (
        {"target_kind": "http", "http_url": "https://e.example", "http_method": "fetch it"},
        "expected a method",
    ),
    "http_headers": (
        {"target_kind": "http", "http_url": "https://e.example", "http_headers": "{bad"},
        "is not valid JSON",
    ),
    "http_body": ({"target_kind": "http", "http_url": "https://e.example", "http_body": "{bad"}, "is not valid JSON"),
    "stored": ({"target_kind": "stored", "stored": "nobody"}, "nobody"),
    "target_json": ({"target_kind": "other", "target_json": '{"command": "rm -rf /"}'}, "commands are never put here"),
    "target_kind": ({"target_kind": "moon"}, "must be one of"),
    "misfire": ({"misfire": "never"}, "must be one of"),
    "tolerance": ({"tolerance": "soon"}, "is not a duration"),
    "limit": ({"limit": "x"}, "must be a whole number"),
    "overlap": ({"overlap": "never"}, "must be one of"),
    "max_concurrent": ({"max_concurrent": "0"}, "must be a whole number from 1"),
    "depends_on": ({"depends_on": "nobody", "within": "1h"}, "nobody"),
    "within": ({"depends_on": "load"}, "is not a duration"),
    "start": ({"start": "soon"}, "is not an instant"),
    "end": ({"start": "2026-03-01", "end": "2026-02-01"}, "is not after the start"),
    "exclude": ({"exclude": "moonday"}, "is not a valid day"),
    "jitter": ({"jitter": "2d"}, "must be 0s to 1d"),
    "expires": ({"expires": "soon"}, "is not a duration"),
    "mode": ({"mode": "dream"}, "must be one of"),
    "gap": ({"gap": "jump"}, "must be one of"),
    "dst_overlap": ({"dst_overlap": "third"}, "must be one of"),
    "max_attempts": ({"max_attempts": "0"}, "must be 1 to 1000"),
    "base": ({"base": "soon"}, "is not a duration"),
    "factor": ({"factor": "x"}, "must be a number"),
    "tags": ({"tags": "<b>"}, "expected a tag"),
    "max": ({"max": "soon"}, "is not a duration"),
}


@pytest.mark.parametrize("field", REFUSED)
async def test_what_is_wrong_is_told_at_its_field_and_nothing_is_stored(
    field: str, app: Duly, visitor: Visitor
) -> None:
    fields, told = REFUSED[field]
    page = await sent(visitor, "/new-schedule", 422, **(NAMED | {"cron": "@daily"} | fields))
    at_field = [html.unescape(told) for told in re.findall(rf'id="act-{field}-wrong">(.*?)</span>', page.html)]
    assert at_field, page.text
    assert any(told in words for words in at_field), at_field
    assert await app.schedules.list() == []


async def test_all_problems_are_told_at_once(visitor: Visitor) -> None:
    page = await sent(
        visitor, "/new-schedule", 422, name="", type="", kind="rrule", rrule="FREQ=NEVER", payload="{bad",
        target_kind="webhook", webhook_url="ftp://x", limit="x", exclude="moonday", timezone="Mars/Olympus",
    )  # fmt: skip
    for field in ("name", "type", "rrule", "payload", "webhook_url", "limit", "exclude", "timezone"):
        assert f'id="act-{field}-wrong"' in page.html, field


TEXTS = sorted({field for fields in FORMS.values() for field in fields} | set(REFUSED) | {"name", "type"})


@pytest.mark.parametrize("field", TEXTS)
async def test_markup_in_any_field_is_text(field: str, visitor: Visitor) -> None:
    fields = NAMED | {"cron": "@daily"} | REFUSED.get(field, ({}, ""))[0] | {field: WICKED}
    page = await before(visitor, "/new-schedule", **fields)
    assert "<img src=x" not in page.html
    form = await visitor.get("/new-schedule")
    answer = await visitor.client.post("/new-schedule", data=filled(form, fields | {"csrf": await visitor.token()}))
    assert answer.status_code in (303, 422)
    shown = Page(answer) if answer.status_code == 422 else await visitor.get(answer.headers["location"])
    assert "<img src=x" not in shown.html
    assert not [name for name in shown.attributes if name.startswith("on")]


async def test_a_name_that_is_taken_is_not_overwritten(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("report", every("1h"), "mine")
    page = await sent(visitor, "/new-schedule", 422, **NAMED, cron="@daily")
    assert "there is a schedule with this name already" in page.text
    assert (await app.schedules.get("report")).type == "mine"


# -- editing


EDITED: dict[str, dict[str, Any]] = {
    "rich": {
        "rule": cron("0 9 * * MON", timezone="Europe/Brussels"), "payload": {"n": 12345678901234567, "x": 1.5},
        "retry": Retry(max_attempts=7), "misfire": {"policy": "all", "limit": 9}, "overlap": "skip", "jitter": "10s",
        "expires": "1h", "exclude": ["SAT"], "start": "2026-02-01T00:00:00Z", "dst": {"gap": "skip"}, "mode": "shadow",
        "target": webhook("https://example.com/x", format="cloudevents"),
    },
    "handler": {"rule": every("15m")},
    "request": {"rule": every("1h"), "target": http("PUT", "https://example.com", headers={"A": "b"}, body={"n": 1})},
    "timeout": {"rule": every("1h"), "target": webhook("https://example.com", timeout="5s")},
    "statuses": {"rule": every("1h"), "target": http("GET", "https://example.com", retry_statuses=[500])},
    "broker": {"rule": every("1h"), "target": nats("orders.due")},
    "left out": {"rule": {"rrule": "FREQ=DAILY", "start": "2026-01-01T09:00:00", "exdate": ["2026-01-05"]}},
    "by date": {"rule": {"rrule": "FREQ=DAILY", "start": "2026-01-01T09:00:00", "named": "date"}},
    "yearly": {"rule": {"yearly": "02-29", "at": "08:00", "leap": "mar1", "since": 2020}},
    "tagged": {"rule": every("1h"), "tags": ["eu", "nightly"]},
    "once": {"rule": {"at": "2027-01-01T00:00:00Z"}},
}  # fmt: skip


@pytest.mark.parametrize("case", EDITED)
async def test_a_form_that_is_sent_as_it_was_opened_changes_nothing(case: str, app: Duly, visitor: Visitor) -> None:
    made = await app.schedules.put("report", type="report.weekly", **EDITED[case])
    await sent(visitor, "/schedules/report/edit")
    stored = await app.schedules.get("report")
    assert (stored.tag, stored.next_at) == (made.tag, made.next_at)
    assert editable(stored) == editable(made)


@pytest.mark.parametrize("case", EDITED)
async def test_the_command_and_the_request_of_an_edit_do_the_same_as_its_form(
    case: str, app: Duly, visitor: Visitor, url: str
) -> None:
    async def made() -> Schedule:
        return await app.schedules.put("report", type="report.weekly", **EDITED[case])

    await made()
    page = await before(visitor, "/schedules/report/edit", type="other.type")
    await sent(visitor, "/schedules/report/edit", type="other.type")
    by_form = editable(await app.schedules.get("report"))
    assert by_form["type"] == "other.type"
    await made()
    await over_http(page, visitor, status=200)
    assert editable(await app.schedules.get("report")) == by_form
    await made()
    await in_a_shell(page, url)
    assert editable(await app.schedules.get("report")) == by_form


async def test_tags_are_taken_away_by_the_form_its_command_and_its_request(
    app: Duly, visitor: Visitor, url: str
) -> None:
    async def tags() -> tuple[str, ...]:
        found = (await app.schedules.get("report")).tags
        await app.schedules.put("report", every("1h"), "x", tags=["eu"])
        return tuple(found)

    await app.schedules.put("report", every("1h"), "x", tags=["eu"])
    page = await before(visitor, "/schedules/report/edit", tags="")
    await sent(visitor, "/schedules/report/edit", tags="")
    assert await tags() == ()
    await in_a_shell(page, url)
    assert await tags() == ()
    page = await before(visitor, "/schedules/report/edit", tags="")
    await over_http(page, visitor)
    assert await tags() == ()


async def test_of_two_who_edit_the_second_is_told_and_overwrites_nothing(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("report", cron("0 9 * * *"), "report.weekly")
    mine = await visitor.get("/schedules/report/edit")
    curl = await before(visitor, "/schedules/report/edit", cron="0 11 * * *")
    await app.schedules.put("report", cron("0 10 * * *"), "report.weekly")
    page = await visitor.post("/schedules/report/edit", status=409, **(mine.fields | {"cron": "0 11 * * *"}))
    assert "Somebody else has changed this schedule since you opened the form" in page.text
    assert page.fields["cron"] == "0 11 * * *"
    assert "/schedules/report/edit" in page.links
    assert (await app.schedules.get("report")).rule == {"cron": "0 10 * * *"}
    await over_http(curl, visitor, status=412)


async def test_a_stored_target_is_named_under_its_own_channel(app: Duly, visitor: Visitor) -> None:
    await app.targets.put("api", "https://example.com", channel="http")
    await app.targets.put("hook", "https://example.com")
    for name, channel in (("api", "http"), ("hook", "webhook")):
        fields: dict[str, Any] = NAMED | {"name": name, "cron": "@daily", "target_kind": "stored", "stored": name}
        page = await before(visitor, "/new-schedule", **fields)
        await sent(visitor, "/new-schedule", **fields)
        assert (await app.schedules.get(name)).target == {channel: {"target": name}}
        await app.schedules.delete(name)
        await over_http(page, visitor)
        assert (await app.schedules.get(name)).target == {channel: {"target": name}}


async def test_a_schedule_of_a_command_is_never_edited(app: Duly, visitor: Visitor) -> None:
    made = await app.schedules.put("backup", cron("0 3 * * *"), "backup.run", target={"command": "backup.sh"})
    form = await visitor.get("/schedules/backup/edit")
    assert "never edited here" in form.text
    refused = await visitor.post("/schedules/backup/edit", status=403, **(form.fields | {"cron": "0 4 * * *"}))
    assert "never edited here" in refused.text
    assert (await app.schedules.get("backup")).tag == made.tag


async def test_a_read_key_sees_the_forms_and_stores_nothing(app: Duly, visiting: OpenVisitor) -> None:
    await app.schedules.put("report", every("1h"), "x", {"secret": 1})
    made = await app.keys.create("reader", scope="read")
    reader = await visiting(app)
    await reader.sign_in(made.secret)
    for path in ("/new-schedule", "/schedules/report/edit"):
        form = await reader.get(path)
        assert "this needs write" in form.text
        await reader.post(path, status=403, **(form.fields | NAMED | {"cron": "@daily"}))
    assert [(one.name, one.type) for one in await app.schedules.list()] == [("report", "x")]


async def test_the_receipt_of_an_edit_leads_to_the_history(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("report", cron("0 9 * * *"), "x")
    answer = await sent(visitor, "/schedules/report/edit", cron="0 10 * * *")
    page = await visitor.get(answer.answer.headers["location"])
    assert "report is saved." in page.text
    assert "/schedules/report#history" in page.links
    assert "changed" in page.text


async def test_a_json_of_a_schedule_has_no_field_that_an_edit_would_drop(app: Duly, visitor: Visitor) -> None:
    made = await app.schedules.put("report", every("1h"), "x")
    told = set(msgspec.json.decode(msgspec.json.encode(SCHEDULE_JSON.write(made))))
    assert "rule" in told
    assert set(editable(made)) <= told
