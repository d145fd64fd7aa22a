"""The pages of events: the list with every filter, one event, and the acts on it."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from duly import Duly, Event, Failed, InStatus, Rejected, Retry, Timer, cron, webhook
from duly.records.event import Status
from duly.records.filters import FIELDS, read_filter
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from tests.conftest import OpenDuly
from tests.dashboard.elsewhere import printed, run_command, run_curl
from tests.dashboard.visiting import OpenVisitor, Page, Visitor
from tests.make import DAY, HOUR, MINUTE, START, a_user

SECRET_KEY = "a key of at least thirty-two characters"
WICKED = "<img src=x onerror=alert(1)>'\"&{{7*7}}"


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    """Events of type ``fine`` complete, those of type ``bad`` are rejected, those of type ``shaky`` are tried again."""
    app = await duly(secret_key=SECRET_KEY)

    @app.on("fine")
    async def fine(event: Event) -> None: ...

    @app.on("bad")
    async def bad(event: Event) -> Rejected:
        return Rejected(f"410 Gone from hooks.example\nthe answer repeats {event.payload}")

    @app.on("shaky")
    async def shaky(event: Event) -> Failed:
        return Failed("503 Service Unavailable")

    return app


@pytest.fixture
async def visitor(app: Duly, visiting: OpenVisitor) -> Visitor:
    return await visiting(app)


async def dead(app: Duly, **options: Any) -> Event:
    """A dead letter."""
    event = await app.at(START, "bad", {"secret": 12.10}, **options)
    await app.tick()
    return await app.events.get(event.id)


def listed(page: Page) -> list[str]:
    """The ids of the events in a list, in its order."""
    return re.findall(r'id="e-([0-9a-f-]{36})"', page.html)


async def counted(visitor: Visitor, page: Page) -> Page:
    """What the list asks for once it is shown."""
    [address] = [link for link in page.links if link.startswith("/counts/")]
    return await visitor.get(address, hx_request="true")


async def of_everything(app: Duly, clock: ManualClock) -> None:
    """Events in which every filter finds some, and not all."""
    await app.targets.put("shop", "https://shop.example/in")
    user = await app.users.add(**a_user(key="ada"))
    assert user.key == "ada"
    await app.schedules.put("weekly", cron("0 9 * * MON"), "fine", timezone="Europe/Brussels")
    await app.at(START - 2 * HOUR, "fine", {}, key="late")
    await app.at(START, "bad", {}, key="dead")
    await app.at(START + DAY, "fine", {}, key="ahead", target=webhook(target="shop"))
    await app.at(START - 3 * HOUR, "nobody", {}, key="stuck")
    await app.tick()
    await app.cancel((await app.at(START + DAY, "fine", {}, key="gone")).id)


FILTERS: dict[str, Any] = {
    "status": "PENDING,CANCELLED",
    "type": "fine",
    "key": "late",
    "user_id": "ada",
    "schedule": "weekly",
    "destination": "shop",
    "error": "gone from",
    "due_from": "2026-01-01T00:00:00Z",
    "due_to": "2026-01-01T00:00:00Z",
    "failed_from": "2026-01-01T00:00:00Z",
    "failed_to": "2026-01-01T00:00:00Z",
    "late_by": "1h",
    "stuck": "true",
}
"""A value of each filter."""


async def test_the_form_has_every_filter_of_the_api(visitor: Visitor) -> None:
    page = await visitor.get("/events")
    assert set(FILTERS) == set(FIELDS)
    assert set(FIELDS) <= page.names | set(page.fields)


@pytest.mark.parametrize("field", FILTERS)
async def test_every_filter_is_an_address_that_lists_what_it_finds(
    field: str, app: Duly, visitor: Visitor, clock: ManualClock
) -> None:
    await of_everything(app, clock)
    written = FILTERS[field]
    sent = await visitor.client.get("/events", params={field: written}, follow_redirects=True)
    page = await visitor.get(str(sent.url.raw_path, "ascii"))
    value = (await app.users.by_key("ada")).id if field == "user_id" else written
    which, problems = read_filter({field: value})
    found = await app.events.find(which)
    every = await app.events.find()
    assert (problems, listed(page)) == ([], [event.id for event in found])
    assert len(found) < len(every)
    assert found or field == "failed_to"
    assert f"{len(found)} event" in (await counted(visitor, page)).text


async def test_an_address_to_share_has_no_empty_fields_and_times_in_utc(visitor: Visitor) -> None:
    visitor.client.cookies.set("duly_zone", "Europe%2FBrussels")
    sent = await visitor.get(
        "/events?type=&key=a&status=FAILED&status=PENDING&due_from=2026-07-01+09:00&sort=-created", status=303
    )
    shared = sent.answer.headers["location"]
    assert shared == "/events?status=FAILED%2CPENDING&key=a&due_from=2026-07-01T07%3A00%3A00Z"
    assert (await visitor.get(shared)).fields["due_from"] == "2026-07-01 09:00:00"
    visitor.client.cookies.set("duly_zone", "Asia%2FTokyo")
    assert (await visitor.get(shared)).fields["due_from"] == "2026-07-01 16:00:00"


async def test_a_time_that_local_clocks_do_not_tell_exactly_is_shown_in_utc(visitor: Visitor) -> None:
    visitor.client.cookies.set("duly_zone", "Europe%2FBrussels")
    second_half_past_two = "2026-10-25T01:30:00Z"
    page = await visitor.get(f"/events?due_from={quote(second_half_past_two)}")
    assert page.fields["due_from"] == second_half_past_two


async def test_a_delay_is_a_time_before_or_after_now(visitor: Visitor) -> None:
    sent = await visitor.get("/events?due_from=-1h&due_to=now", status=303)
    assert sent.answer.headers["location"].endswith("due_from=2025-12-31T23%3A00%3A00Z&due_to=2026-01-01T00%3A00%3A00Z")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("late_by=soon", "is not a duration such as 30s"),
        ("due_from=tomorrow", "is not a time"),
        ("status=LOST", "must be one or several of PENDING"),
        ("user_id=nobody", "there is no user with the id or key 'nobody'"),
        ("schedule=none", "there is no schedule 'none'"),
        ("sort=upwards", "must be one of -created, due, -due"),
        ("sort=due&status=FAILED", "is the order of waiting events"),
        ("after=here", "after: "),
    ],
)
async def test_a_filter_that_cannot_be_says_why(asked: str, told: str, visitor: Visitor) -> None:
    await visitor.app.at(START, "fine", {})
    page = await visitor.get(f"/events?{asked}", status=422)
    assert told in page.text
    assert (listed(page), 'id="live"' in page.html) == ([], False)


@pytest.mark.parametrize("sort", ["-created", "due", "-due"])
async def test_pages_follow_one_another_in_the_order_that_was_asked_for(sort: str, visitor: Visitor) -> None:
    dues = [START + timedelta(minutes=(7 * at) % 120) for at in range(120)]
    for due in dues:
        await visitor.app.at(due, "fine", {})
    path, seen = "/events" if sort == "-created" else f"/events?sort={sort}", list[str]()
    for _ in range(4):
        page = await visitor.get(path)
        seen += listed(page)
        following = [link for link in page.links if "after=" in link]
        if not following:
            break
        path = following[-1]
    assert seen == [event.id for event in await visitor.app.events.find(limit=1000, sort=sort)]
    assert "First page" in page.text


async def test_more_than_ten_thousand_are_counted_as_an_estimate(visitor: Visitor) -> None:
    for _ in range(11):
        await visitor.app.add_many([Timer(START, "fine") for _ in range(1000)])
    count = await counted(visitor, await visitor.get("/events"))
    assert re.fullmatch(r"about 1\d,000 events, estimated", count.text)


async def test_the_count_is_asked_for_once_and_not_each_second(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = await visitor.app.at(START, "fine", {})
    asked, count = list[object](), Events.count

    async def counting(self: Events, *given: Any, **how: Any) -> Any:
        asked.append(given)
        return await count(self, *given, **how)

    monkeypatch.setattr(Events, "count", counting)
    page = await visitor.get("/events")
    assert page.html.count('hx-trigger="load"') == 1
    assert (await counted(visitor, page)).text == "1 event"
    assert event.id in await visitor.live("/events")
    assert len(asked) == 1


async def test_without_a_script_a_count_is_a_page(visitor: Visitor) -> None:
    page = await visitor.get("/counts/events?type=none")
    assert "0 events" in page.text
    assert "/events?type=none" in page.links
    await visitor.get("/counts/events?late_by=soon", status=422)


async def test_a_list_without_events_says_how_to_make_one(visitor: Visitor) -> None:
    assert "duly at +1m --type hello" in (await visitor.get("/events")).text
    assert "No event matches" in (await visitor.get("/events?type=none")).text


async def test_the_list_tells_what_is_late_and_of_whom_it_is(app: Duly, visitor: Visitor) -> None:
    user = await app.users.add(**a_user(key="ada"))
    await app.schedules.put("weekly", cron("0 9 * * MON"), "fine")
    await app.at(START - HOUR, "fine", {}, key="k1")
    await app.at(START - MINUTE, "unserved", {})
    await app.at(START, "shaky", {})
    await app.tick()
    page = await visitor.get("/events")
    for told in ("1 h", "overdue 1 min", "again in", "503 Service Unavailable", "weekly", "ada", "k1", "1 of 3"):
        assert told in page.text, told
    assert {f"/users/{user.id}", "/schedules/weekly"} <= set(page.links)


# -- one event


async def test_the_page_of_an_event_tells_when_it_is_due_on_all_clocks(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("weekly", cron("0 9 * * MON"), "fine", timezone="Asia/Tokyo")
    [head] = await app.events.find()
    visitor.client.cookies.set("duly_zone", "Europe%2FBrussels")
    page = await visitor.get(f"/events/{head.id}")
    assert "Mon 5 Jan 01:00:00" in page.text
    assert "2026-01-05T00:00:00Z" in page.text
    assert "Mon 2026-01-05 09:00:00 Asia/Tokyo" in page.text
    assert "It is due at 2026-01-05T00:00:00Z." in page.text
    assert "/schedules/weekly" in page.links
    assert f"/events?schedule={head.schedule_id}" in page.links


async def test_the_timeline_goes_from_creation_to_settlement(app: Duly, visitor: Visitor, clock: ManualClock) -> None:
    event = await app.at(START, "shaky", {}, retry=Retry(max_attempts=2, base=MINUTE))
    await app.tick()
    clock.advance(HOUR)
    await app.tick()
    await app.events.replay(event.id, by="grace")
    page = await visitor.get(f"/events/{event.id}")
    moments = [
        "created",
        "attempt 1 failed",
        ": 503 Service Unavailable",
        "attempt 2 failed",
        "replayed by grace",
    ]
    places = [page.text.find(moment) for moment in moments]
    assert -1 not in places
    assert places == sorted(places)
    assert "attempt 1 of 3" not in page.text


async def test_the_acts_that_are_offered_follow_the_status_while_the_page_is_open(app: Duly, visitor: Visitor) -> None:
    event = await app.at(START, "bad", {})
    before = await visitor.live(f"/events/{event.id}")
    await app.tick()
    after = await visitor.live(f"/events/{event.id}")
    for verb, there in (("cancel", before), ("reschedule", before), ("replay", after), ("discard", after)):
        assert [f"/{verb}" in before, f"/{verb}" in after] == [there is before, there is after]


async def test_an_output_is_shown_by_its_last_lines(app: Duly, visitor: Visitor) -> None:
    @app.on("loud")
    async def loud(event: Event) -> Rejected:
        return Rejected("no", output="\n".join(f"line {number}" for number in range(100)))

    event = await app.at(START, "loud", {})
    await app.tick()
    page = await visitor.get(f"/events/{event.id}")
    assert ("line 99" in page.text, "line 59" in page.text, "60 lines of output before" in page.text) == (
        True,
        False,
        True,
    )


async def test_workers_are_named_only_to_those_who_see_the_system(app: Duly, visiting: OpenVisitor) -> None:
    event = await dead(app)
    assert event.worker is not None
    await app.events.replay(event.id, by="grace")
    keyless = await visiting(app)
    assert event.worker in (await keyless.get(f"/events/{event.id}")).text
    for all_tenants in (False, True):
        made = await app.keys.create("ada", scope="write", all_tenants=all_tenants)
        visitor = await visiting(app)
        await visitor.sign_in(made.secret)
        page = await visitor.get(f"/events/{event.id}")
        assert (event.worker in page.html, "by grace" in page.text) == (all_tenants, True)


async def test_payloads_are_hidden_from_read_keys_until_they_are_asked_for(app: Duly, visiting: OpenVisitor) -> None:
    event = await dead(app)
    made = await app.keys.create("reader", scope="read")
    reader = await visiting(app)
    await reader.sign_in(made.secret)
    page = await reader.get(f"/events/{event.id}")
    assert "12.1" not in page.html
    assert "410 Gone from hooks.example" in page.text
    [shown] = [link for link in page.links if "payload=1" in link]
    asked = await reader.get(shown.partition("#")[0])
    assert '"secret": 12.1' in asked.text
    assert "the answer repeats" in asked.text


async def test_numbers_of_a_payload_are_shown_as_they_were_written(app: Duly, visiting: OpenVisitor) -> None:
    visitor = await visiting(app)
    body = '{"type": "fine", "due_at": "2026-01-01T09:00:00Z", "payload": {"n": 12345678901234567890123, "x": 1.50}}'
    put = await visitor.client.put("/v1/timers/exact", content=body, headers={"content-type": "application/json"})
    assert put.is_success, put.text
    stored = (await app.events.get("exact")).payload_json
    page = await visitor.get("/events/exact")
    for number in re.findall(r"[\d.]+", stored):
        assert number in page.text


async def test_what_a_key_remembers_of_a_deleted_event_is_shown(
    duly: OpenDuly, visiting: OpenVisitor, clock: ManualClock
) -> None:
    app = await duly(retention="1h")

    @app.on("fine")
    async def fine(event: Event) -> None: ...

    await app.at(START, "fine", {}, key="old")
    await app.tick()
    clock.advance(2 * DAY)
    await app.prune()
    visitor = await visiting(app)
    assert "This event was deleted" in (await visitor.get("/events/old")).text


async def test_what_others_have_written_is_text_in_every_field(app: Duly, visitor: Visitor) -> None:
    @app.on(WICKED)
    async def bad(event: Event) -> Rejected:
        return Rejected(f"{WICKED}\n{WICKED}", output=WICKED)

    await app.schedules.put(WICKED, cron("@daily"), WICKED, payload={WICKED: WICKED})
    head = await app.schedules.trigger(WICKED, by=WICKED)
    timer = await app.at(START, WICKED, {WICKED: WICKED}, key=WICKED, correlation_id=WICKED)
    await app.tick()
    await app.events.discard(timer.id, by=WICKED, reason=WICKED)
    await app.users.add(**a_user(key=WICKED, first_name=WICKED))
    paths = [
        "/events",
        f"/events?type={quote(WICKED)}&error={quote(WICKED)}",
        f"/events/{timer.id}",
        f"/events/{quote(WICKED, safe='')}",
        f"/events/{head.id}",
        f"/events/{head.id}/replay",
        "/dead-letters",
        f"/dead-letters/replay?error={quote(WICKED)}",
    ]
    for path in paths:
        page = await visitor.get(path)
        assert "<img" not in page.html.replace('<img src="/static/icon.svg', ""), path
        assert "onerror" in page.text or "onerror" in str(page.fields), path
    for path in ("/events", f"/events/{timer.id}"):
        assert "<img" not in await visitor.live(path)


# -- acts


Prepared = Callable[[Duly], Awaitable[Event]]


async def waiting(app: Duly) -> Event:
    return await app.at(START + DAY, "fine", {})


ACTS: dict[str, tuple[Prepared, dict[str, Any]]] = {
    "cancel": (waiting, {"reason": '-it\'s "paid"'}),
    "reschedule": (waiting, {"due_at": "2026-01-03 10:00"}),
    "replay": (dead, {}),
    "discard": (dead, {"reason": "too late"}),
}
"""Each act on an event: on which one, and what is filled in."""


def outcome(event: Event) -> tuple[object, ...]:
    return event.status, event.due, event.attempts, event.held


@pytest.mark.parametrize("verb", ACTS)
async def test_an_act_does_the_same_by_form_by_command_and_over_http(
    verb: str, app: Duly, visitor: Visitor, url: str
) -> None:
    prepare, fields = ACTS[verb]
    events = [await prepare(app) for _ in range(3)]
    histories = []
    done = await visitor.act(f"/events/{events[0].id}/{verb}", **fields)
    assert "See the history" in done.text
    await run_command(await visitor.before(f"/events/{events[1].id}/{verb}", **fields), url)
    await run_curl(await visitor.before(f"/events/{events[2].id}/{verb}", **fields), visitor)
    for event in events:
        last = (await app.events.history(event.id))[-1]
        histories.append((last.act, last.detail))
    after = [outcome(await app.events.get(event.id)) for event in events]
    assert after[0] == after[1] == after[2] != outcome(events[0])
    assert histories[0] == histories[1] == histories[2]


async def test_rescheduling_can_be_undone_to_the_microsecond(app: Duly, visitor: Visitor) -> None:
    event = await app.at(START + DAY + timedelta(microseconds=7), "fine", {})
    visitor.client.cookies.set("duly_zone", "Europe%2FBrussels")
    done = await visitor.act(f"/events/{event.id}/reschedule", due_at="2026-01-03 10:00")
    assert (await app.events.get(event.id)).due.isoformat() == "2026-01-03T09:00:00+00:00"
    assert "is due Sat 3 Jan 10:00:00 now" in done.text
    [undo] = [link for link in done.links if "reschedule?" in link]
    await visitor.act(undo)
    assert (await app.events.get(event.id)).due == event.due


@pytest.mark.parametrize(("due", "told"), [("", "is missing"), ("soon", "is not a time"), ("9999-12-31 00:00", "year")])
async def test_a_due_time_that_cannot_be_is_refused_at_its_field(
    due: str, told: str, app: Duly, visitor: Visitor
) -> None:
    event = await waiting(app)
    refused = await visitor.act(f"/events/{event.id}/reschedule", status=422, due_at=due)
    assert told in refused.text
    assert (await app.events.get(event.id)).due == event.due


async def test_the_form_of_a_move_tells_what_it_changes(app: Duly, visitor: Visitor) -> None:
    await app.schedules.put("weekly", cron("0 9 * * MON"), "fine", timezone="Asia/Tokyo")
    [head] = await app.events.find()
    page = await visitor.before(f"/events/{head.id}/reschedule", due_at="2026-01-06T00:00:00Z")
    assert "It fires 1 d later than now planned." in page.text
    assert "Tue 2026-01-06 09:00:00" in page.text
    page = await visitor.before(f"/events/{head.id}/reschedule", due_at="-1h")
    assert "it fires at once" in page.text


async def test_an_event_that_runs_is_asked_to_stop(app: Duly, visitor: Visitor) -> None:
    event = await app.at(START, "fine", {})
    await app.store.claim("w1", {"handler:fine": 1}, timedelta(seconds=30))
    assert "asked to stop" in (await visitor.act(f"/events/{event.id}/cancel")).text
    assert (await app.events.get(event.id)).stop_requested is not None


async def test_what_has_ended_is_replayed_with_another_payload_as_an_event_of_its_own(
    app: Duly, visitor: Visitor
) -> None:
    event = await app.at(START, "fine", {"n": 1})
    await app.tick()
    address = f"/events/{event.id}/replay"
    assert "is not JSON" in (await visitor.act(address, status=422, payload="{")).text
    told = await visitor.before(address, payload='{"n": 12345678901234567890}')
    assert f"duly events replay {event.id} --payload '{{\"n\": 12345678901234567890}}'" in told.text
    page = await visitor.act(address, payload='{"n": 12345678901234567890}')
    assert "is replayed with another payload, as event" in page.text
    [new] = await app.events.find(InStatus(Status.PENDING))
    assert (new.replay_of, new.payload) == (event.id, {"n": 12345678901234567890})
    assert (await app.events.get(event.id)).replayed_as == new.id


@pytest.mark.parametrize("verb", [verb for verb in ACTS if verb != "replay"])
async def test_an_act_on_an_event_that_has_ended_says_why_it_cannot(verb: str, app: Duly, visitor: Visitor) -> None:
    event = await app.at(START, "fine", {})
    await app.tick()
    form = await visitor.get(f"/events/{event.id}/{verb}")
    assert ("It is COMPLETED." in form.text, " disabled" in form.html) == (True, True)
    refused = await visitor.post(f"/events/{event.id}/{verb}", status=409, due_at="2027-01-01 00:00")
    assert "cannot" in refused.text
    assert (await app.events.get(event.id)).status is Status.COMPLETED


@pytest.mark.parametrize("verb", ACTS)
async def test_a_read_key_sees_the_form_of_an_act_and_cannot_act(verb: str, app: Duly, visiting: OpenVisitor) -> None:
    prepare, fields = ACTS[verb]
    event = await prepare(app)
    made = await app.keys.create("reader", scope="read")
    reader = await visiting(app)
    await reader.sign_in(made.secret)
    assert "this needs write" in (await reader.get(f"/events/{event.id}/{verb}")).text
    await reader.act(f"/events/{event.id}/{verb}", status=403, **fields)
    assert outcome(await app.events.get(event.id)) == outcome(event)


async def test_an_event_of_another_tenant_is_not_there(app: Duly, visiting: OpenVisitor) -> None:
    theirs = await app.at(START + DAY, "fine", {}, tenant="rival", key="theirs")
    made = await app.keys.create("ada", scope="admin")
    visitor = await visiting(app)
    await visitor.sign_in(made.secret)
    for name in (theirs.id, "theirs"):
        await visitor.get(f"/events/{name}", status=404)
        for verb in ACTS:
            await visitor.get(f"/events/{name}/{verb}", status=404)
            await visitor.post(f"/events/{name}/{verb}", status=404, due_at="2026-01-03 10:00")
            await visitor.post(f"/events/{name}/{verb}?before=1", status=404)
    assert theirs.id not in (await visitor.get("/events")).html
    assert outcome(await app.events.get(theirs.id)) == outcome(theirs)


async def test_the_printed_request_of_a_signed_in_visitor_leaves_the_key_to_the_shell(
    app: Duly, visiting: OpenVisitor
) -> None:
    event = await app.at(START + DAY, "fine", {}, tenant="shop")
    made = await app.keys.create("ada", scope="write", tenant="shop")
    visitor = await visiting(app)
    await visitor.sign_in(made.secret)
    form = await visitor.get(f"/events/{event.id}/cancel")
    assert '-H "Authorization: Bearer $DULY_KEY"' in printed(form, "act-curl")
    assert printed(form, "act-command") == f"duly events cancel {event.id} --tenant shop"
