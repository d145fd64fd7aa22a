"""Events over HTTP: found by filters, read with their history, changed by people."""

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

from duly import Event, Failed, Rejected, Status, Timer
from duly.ids import new_id
from duly.records.event import Outcome
from duly.records.finding.cursors import write_cursor
from duly.testing import ManualClock, Recorder
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller, paths
from tests.make import HOUR, MINUTE, a_user

SHOP, BANK = {"webhook": "https://shop.example/in"}, {"webhook": "https://bank.example/in"}


async def all_of(http: Caller, query: Mapping[str, Any] | None = None, limit: int = 1000) -> list[dict[str, Any]]:
    """Page after page, by the links: a page may be short, even empty, while the list goes on."""
    address: str | None = "/v1/events?" + urlencode({**(query or {}), "limit": limit})
    found: list[dict[str, Any]] = []
    while address:
        page = await http("GET", address)
        assert page.status_code == 200, page.text
        assert len(page.json()["events"]) <= limit
        found += page.json()["events"]
        address = page.links["next"]["url"] if "next" in page.links else None
        assert (address is not None) == (page.json()["next_cursor"] is not None)
    return found


async def keys(http: Caller, **query: Any) -> set[str]:
    return {event["key"] for event in await all_of(http, query)}


async def timer(http: Caller, key: str, **fields: Any) -> dict[str, Any]:
    said = {"due_at": "2026-01-01T01:00:00Z", "type": "invoice.overdue", **fields}
    created: dict[str, Any] = await http.put(f"/v1/timers/{quote(key, safe='')}", said)
    return created


class Hooks(Recorder):
    """A channel that returns what the test says next."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []

    async def deliver(self, event: Event) -> Outcome:
        delivered = await super().deliver(event)
        return self.outcomes.pop(0) if self.outcomes else delivered


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
async def shop(duly: OpenDuly, calling: OpenCaller, hooks: Hooks) -> Caller:
    """An API whose webhooks go to `hooks`."""
    return await calling(await duly(channels={"webhook": hooks}))


async def fail(http: Caller, clock: ManualClock, hooks: Hooks, *errors: str, **fields: Any) -> list[dict[str, Any]]:
    """Dead letters, one for each error, an hour after the other."""
    made = []
    for error in errors:
        one = await timer(http, f"dead {error}", due_at=f"{clock.now():%FT%TZ}", **({"target": SHOP} | fields))
        hooks.outcomes.append(Rejected(error))
        await http.app.tick()
        made.append(await http.get(f"/v1/events/{one['id']}"))
        assert made[-1]["status"] == "FAILED"
        clock.advance(HOUR)
    return made


# -- found


async def test_events_are_found_by_each_filter_and_by_all_of_them(
    shop: Caller, clock: ManualClock, hooks: Hooks
) -> None:
    http = shop
    await http.put("/v1/schedules/nightly", {"type": "report", "rule": {"cron": "0 3 * * *"}, "target": BANK})
    user = await http.post("/v1/users", a_user(key="ada", target=SHOP))
    await fail(http, clock, hooks, "503 Service Unavailable", "100% wrong_")
    await timer(http, "done", due_at="2026-01-01T02:00:00Z", target=SHOP)
    await http.app.tick()
    await timer(http, "late", due_at="2026-01-01T02:00:00Z", target=SHOP)
    clock.advance(30 * MINUTE)
    await http.app.tick()
    await timer(http, "waits", due_at="2026-01-02T00:00:00Z", target=BANK)
    await timer(http, "gone", due_at="2026-01-03T00:00:00Z", type="other")
    await http.delete("/v1/timers/gone")

    dead = {"dead 503 Service Unavailable", "dead 100% wrong_"}
    assert await keys(http, status="FAILED") == dead
    assert await keys(http, status="FAILED,CANCELLED") == {*dead, "gone"}
    assert await keys(http, status="failed,Cancelled") == {*dead, "gone"}, "in any letter case"
    assert await keys(http, type="other") == {"gone"}
    assert await keys(http, key="waits") == {"waits"}
    assert await keys(http, destination="https://bank.example", type="invoice.overdue") == {"waits"}
    assert await keys(http, destination="https://bank.example/another/path?x=1", key="waits") == {"waits"}
    assert await keys(http, error="503") == {"dead 503 Service Unavailable"}
    assert await keys(http, error="100% wrong_") == {"dead 100% wrong_"}, "as it is written"
    assert await keys(http, error="%") == {"dead 100% wrong_"}
    assert await keys(http, due_from="2026-01-02T00:00:00Z", type="invoice.overdue") == {"waits"}
    assert await keys(http, due_to="2026-01-01T01:00:00Z") == {"dead 503 Service Unavailable"}, "the end is not in it"
    assert await keys(http, due_from="2026-01-01T02:00:00+01:00", due_to="2026-01-01T01:30:00Z") == {"dead 100% wrong_"}
    assert await keys(http, failed_from="2026-01-01T00:30:00Z") == {"dead 100% wrong_"}
    assert await keys(http, failed_to="2026-01-01T00:30:00Z") == {"dead 503 Service Unavailable"}
    assert await keys(http, late_by="20m") == {"late"}
    assert await keys(http, late_by="0s") >= {"late"}
    assert await keys(http, stuck="true") == dead
    assert await keys(http, stuck="true", late_by="2h") == {"dead 503 Service Unavailable"}
    assert await keys(http, stuck="false", key="waits") == {"waits"}
    assert await keys(http, status="FAILED", error="503", type="other") == set()

    [nightly] = await all_of(http, {"schedule": "nightly"})
    assert (nightly["schedule"], nightly["user_id"], nightly["due_at"]) == ("nightly", None, "2026-01-01T03:00:00Z")
    id = (await http.get("/v1/schedules/nightly"))["id"]
    assert await all_of(http, {"schedule": id}) == [nightly], "by its id, too"
    assert await all_of(http, {"schedule": new_id()}) == []
    [birthday] = await all_of(http, {"user_id": user["id"]})
    assert (birthday["schedule"], birthday["user_id"], birthday["type"]) == (None, user["id"], "birthday")
    assert await all_of(http, {"user_id": user["id"], "schedule": "nightly"}) == []
    assert await all_of(http, {"user_id": new_id()}) == []
    assert len(await all_of(http)) == 8


async def test_all_that_is_wrong_with_a_filter_is_told_at_once(http: Caller) -> None:
    bad = {
        "status": "lost", "type": "", "key": "\n", "user_id": "ada", "schedule": "nobody", "destination": "x://",
        "error": "", "due_from": "today", "due_to": "2026-01-01", "failed_from": "5", "failed_to": "",
        "late_by": "long", "stuck": "maybe", "limit": 0, "cursor": "x",
    }  # fmt: skip
    assert set(paths(await http("GET", f"/v1/events?{urlencode(bad)}"))) == set(bad)
    assert paths(await http("GET", "/v1/events?stat=FAILED&status=FAILED&status=PENDING")) == [
        "query.stat",
        "query.status",
    ]
    for query in ("status=", "status=FAILED,", "status=FAILED,maybe", "status=%00"):
        assert paths(await http("GET", f"/v1/events?{query}")) == ["status"]
    in_body = {field: 5 for field in bad if field not in ("limit", "cursor")} | {"colour": 1}
    for path in ("/v1/events/replay", "/v1/events/discard"):
        assert set(paths(await http("POST", path, {"filter": in_body}))) == {f"filter.{field}" for field in in_body}
    counting = {field: value for field, value in bad.items() if field in in_body}
    assert set(paths(await http("GET", f"/v1/dead-letters?{urlencode(counting)}"))) == set(counting)


# -- pages


async def test_pages_of_events_are_stable_while_events_are_inserted(http: Caller) -> None:
    ids = [(await timer(http, f"k{n}"))["id"] for n in range(10)][::-1]
    found: list[str] = []
    address: str | None = "/v1/events?limit=3&type=invoice.overdue&status=PENDING,FAILED"
    while address:
        page = await http("GET", address)
        found += [event["id"] for event in page.json()["events"]]
        address = page.links["next"]["url"] if "next" in page.links else None
        await timer(http, f"new {len(found)}")
    assert found == ids
    assert [event["id"] for event in await all_of(http, limit=1)][-10:] == ids


async def test_a_cursor_fits_only_the_list_that_gave_it(http: Caller) -> None:
    for n in range(3):
        await timer(http, f"k{n}")
    cursor = (await http.get("/v1/events?limit=1&type=invoice.overdue"))["next_cursor"]
    assert (await http("GET", f"/v1/events?limit=2&type=invoice.overdue&cursor={cursor}")).status_code == 200
    for query in ("", "type=other&", "type=invoice.overdue&status=PENDING&"):
        refused = await http("GET", f"/v1/events?{query}cursor={cursor}")
        assert paths(refused) == ["cursor"]
        assert "other filters" in refused.json()["errors"][0]["message"]


async def test_a_forged_cursor_is_refused(http: Caller) -> None:
    await timer(http, "a")
    await timer(http, "b")
    cursor = (await http.get("/v1/events?limit=1"))["next_cursor"]
    [of, last] = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))

    def forged(*parts: Any) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")

    forgeries = ["", "x", "é", "a" * 5000, cursor[:-3], cursor + "A", forged(of), forged(of, 5), forged(of, None),
                 forged(of, ""), forged(of, "x"), forged(of, "\x00"), forged(of, last, last), forged(of, "' OR 1=1 --"),
                 forged(of, f"{last} "), forged("", last), forged(5, last), forged(of, last[:-1])]  # fmt: skip
    for forgery in forgeries:
        for list_ in ("events", "users"):
            answer = await http("GET", f"/v1/{list_}?cursor={quote(forgery)}")
            assert paths(answer) == ["cursor"], (list_, forgery)
    assert forged(of, last) == cursor


async def test_a_page_begins_after_an_id_or_a_name(http: Caller) -> None:
    ids = [(await timer(http, f"k{n}"))["id"] for n in range(3)][::-1]
    first = await http.get("/v1/events?limit=2&status=PENDING")
    assert first["next_after"] == ids[1]
    rest = await http("GET", f"/v1/events?limit=2&after={first['next_after'].upper()}")
    assert [event["id"] for event in rest.json()["events"]] == ids[2:]
    assert rest.json()["next_after"] is None
    for name in ("a", "b b", "c"):
        await http.put(f"/v1/schedules/{quote(name)}", {"type": "report", "rule": {"cron": "0 3 * * *"}})
    following = await http("GET", "/v1/schedules?limit=1&after=a")
    assert [one["name"] for one in following.json()["schedules"]] == ["b b"]
    assert "after=" not in following.links["next"]["url"], "the cursor says where to go on"
    last = await http("GET", following.links["next"]["url"])
    assert [one["name"] for one in last.json()["schedules"]] == ["c"]


@pytest.mark.parametrize(
    ("list_", "bad"), [("events", "a"), ("users", "{}"), ("schedules", ""), ("schedules", "a\n"), ("targets", " ")]
)
async def test_the_parameter_after_names_an_entry_and_excludes_a_cursor(http: Caller, list_: str, bad: str) -> None:
    assert paths(await http("GET", f"/v1/{list_}?{urlencode({'after': bad})}")) == ["after"]
    cursor = write_cursor({}, new_id())
    assert paths(await http("GET", f"/v1/{list_}?after={new_id()}&cursor={cursor}")) == ["after"]


# -- read


async def test_an_event_is_read_with_its_whole_history(shop: Caller, clock: ManualClock, hooks: Hooks) -> None:
    http = shop
    hooks.outcomes += [Failed("503 from shop.example")] * 2 + [Rejected("410 Gone")]
    made = await timer(http, "a", target=SHOP, correlation_id="c1")
    moved = await http.post(f"/v1/events/{made['id']}/reschedule", {"due_at": "2026-01-01T02:00:00Z"})
    assert moved["due_at"] == "2026-01-01T02:00:00Z"
    clock.advance(2 * HOUR)
    for _ in range(3):
        await http.app.tick()
        clock.advance(HOUR)
    dead = await http.get(f"/v1/events/{made['id']}")
    assert (dead["status"], dead["attempts"], dead["last_error"]) == ("FAILED", 3, "410 Gone")
    await http.post(f"/v1/events/{made['id']}/replay")
    await http.app.tick()
    shown = await http.get(f"/v1/events/{made['id']}")
    assert shown.pop("history_cursor") is None
    history = shown.pop("history")
    assert [(entry["act"], entry["attempt"], entry["detail"]) for entry in history if entry["act"] != "created"] == [
        ("rescheduled", None, "due 2026-01-01T01:00:00Z → 2026-01-01T02:00:00Z"),
        ("failed", 1, "503 from shop.example"),
        ("failed", 2, "503 from shop.example"),
        ("rejected", 3, "410 Gone"),
        ("replayed", None, "after 3 attempts: 410 Gone"),
        ("delivered", 1, None),
    ]
    assert (shown["status"], shown["correlation_id"], shown["due_at"]) == ("COMPLETED", "c1", "2026-01-01T02:00:00Z")
    assert shown["lateness_seconds"] == 3 * 3600
    assert hooks.ids == [made["id"]] * 4
    [listed] = await all_of(http)
    assert listed == shown


async def test_an_id_of_no_event_is_not_found(http: Caller) -> None:
    for id in (new_id(), "7", "replay", "x" * 1000, "%00", "a%2Fb"):
        calls = [("GET", "", None), ("POST", "/cancel", None), ("POST", "/replay", None), ("POST", "/discard", None),
                 ("POST", "/reschedule", {"due_at": "2026-01-01T02:00:00Z"})]  # fmt: skip
        for method, path, body in calls:
            answer = await http(method, f"/v1/events/{id}{path}", body)
            assert answer.status_code in (404, 405 if id == "replay" and method == "GET" else 404), (id, path)


# -- changed by people


async def test_a_waiting_event_can_be_moved_and_cancelled(
    http: Caller, calling: OpenCaller, clock: ManualClock
) -> None:
    made = await http.app.keys.create("console", scope="write")
    keyed = await calling(http.app, authorization=f"Bearer {made.secret}")
    one = await timer(keyed, "a")
    moved = await keyed.post(f"/v1/events/{one['id']}/reschedule", {"due_at": "2027-01-01T00:00:00+01:00"})
    assert (moved["due_at"], moved["ready_at"]) == ("2026-12-31T23:00:00Z", "2026-12-31T23:00:00Z")
    cancelled = await keyed.post(f"/v1/events/{one['id']}/cancel", {"reason": "it was paid"})
    assert cancelled["status"] == "CANCELLED"
    [*_, last] = (await keyed.get(f"/v1/events/{one['id']}"))["history"]
    assert (last["act"], last["worker"], last["detail"]) == ("cancelled", "key console", "it was paid")
    assert (await keyed("POST", f"/v1/events/{one['id']}/cancel")).status_code == 404, "it was cancelled before"
    for verb, body in (("replay", {}), ("discard", {}), ("reschedule", {"due_at": one["due_at"]})):
        refused = await keyed("POST", f"/v1/events/{one['id']}/{verb}", body)
        assert (refused.status_code, "it is CANCELLED" in refused.json()["detail"]) == (409, True), verb
    for bad in ({}, {"due_at": 5}, {"due_at": "soon"}, {"due_at": "2027-01-01T00:00:00"}):
        assert paths(await keyed("POST", f"/v1/events/{one['id']}/reschedule", bad)) == ["due_at"]
    for verb, bad in (("cancel", {"reason": 5}), ("discard", {"reasn": "x"}), ("replay", {"reason": "x"})):
        assert paths(await keyed("POST", f"/v1/events/{one['id']}/{verb}", bad)) == list(bad)


async def test_a_cancelled_occurrence_is_followed_by_the_next(http: Caller) -> None:
    await http.put("/v1/schedules/nightly", {"type": "report", "rule": {"cron": "0 3 * * *"}})
    [first] = await all_of(http)
    await http.post(f"/v1/events/{first['id']}/cancel")
    assert (await http.get("/v1/schedules/nightly"))["next_at"] == "2026-01-02T03:00:00Z"
    moved = await all_of(http, {"status": "PENDING"})
    assert [event["schedule"] for event in moved] == ["nightly"]


async def test_a_dead_letter_can_be_discarded_over_http(shop: Caller, clock: ManualClock, hooks: Hooks) -> None:
    [dead] = await fail(shop, clock, hooks, "410")
    for verb, body in (("cancel", {}), ("reschedule", {"due_at": dead["due_at"]})):
        assert (await shop("POST", f"/v1/events/{dead['id']}/{verb}", body)).status_code == 409
    away = await shop.post(f"/v1/events/{dead['id']}/discard", {"reason": "the shop is closed"})
    assert away["status"] == "CANCELLED"
    assert (await shop.get(f"/v1/events/{dead['id']}"))["history"][-1]["detail"] == "the shop is closed"
    assert (await shop("POST", f"/v1/events/{dead['id']}/replay")).status_code == 409


async def test_a_dead_letter_is_replayed_with_another_payload_as_a_new_event(
    shop: Caller, clock: ManualClock, hooks: Hooks
) -> None:
    [dead] = await fail(shop, clock, hooks, "422", payload={"invoice": "seven"})
    path = f"/v1/events/{dead['id']}/replay"
    answer = await shop("POST", path, {"payload": {"invoice": 7}}, idempotency_key="once")
    new = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, f"/v1/events/{new['id']}")
    assert (new["payload"], new["replay_of"], new["status"]) == ({"invoice": 7}, dead["id"], "PENDING")
    again = await shop("POST", path, {"payload": {"invoice": 7}}, idempotency_key="once")
    assert (again.status_code, again.json()) == (201, new), "the same request, and no second event"
    old = await shop.get(f"/v1/events/{dead['id']}")
    assert (old["status"], old["replayed_as"], old["payload"]) == ("CANCELLED", new["id"], {"invoice": "seven"})
    await shop.app.tick()
    assert hooks.ids == [dead["id"], new["id"]]
    done = await shop.get(f"/v1/events/{new['id']}")
    assert (done["status"], done["history"][0]["act"], done["history"][0]["worker"]) == ("COMPLETED", "created", "api")
    third = await shop.post(f"/v1/events/{new['id']}/replay", {"payload": None})
    assert (third["payload"], third["replay_of"]) == (None, new["id"]), "null is a payload, and no missing one"
    assert (await shop.get(f"/v1/events/{new['id']}"))["status"] == "COMPLETED"


async def test_a_replay_with_another_payload_that_cannot_be_is_refused(
    shop: Caller, calling: OpenCaller, clock: ManualClock, hooks: Hooks
) -> None:
    @shop.app.check("invoice.overdue")
    def has_an_invoice(timer: Timer) -> list[str]:
        return [] if timer.payload is None or "invoice" in timer.payload else ["has no invoice"]

    [dead] = await fail(shop, clock, hooks, "422")
    path, count = f"/v1/events/{dead['id']}/replay", len(await all_of(shop))
    assert paths(await shop("POST", path, {"payload": {"bill": 7}})) == ["payload"]
    assert paths(await shop("POST", path, {"payload": {"invoice": 7}, "key": "k"})) == ["key"]
    for bad in (b"[]", b'"x"', b"{", b'{"payload": NaN}'):
        assert (await shop("POST", path, bad, content_type="application/json")).status_code in (400, 422), bad
    deep = b'{"payload": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert (await shop("POST", path, deep, content_type="application/json")).status_code in (400, 422)
    waits = await timer(shop, "waits")
    refused = await shop("POST", f"/v1/events/{waits['id']}/replay", {"payload": {"invoice": 8}})
    assert (refused.status_code, "cancel it and then replay it" in refused.json()["detail"]) == (409, True)
    assert len(await all_of(shop)) == count + 1
    reader = await shop.app.keys.create("reader", scope="read")
    theirs = await shop.app.keys.create("theirs", scope="write", tenant="acme")
    for key, status in ((reader, 403), (theirs, 404)):
        other = await calling(shop.app, authorization=f"Bearer {key.secret}")
        assert (await other("POST", path, {"payload": {"invoice": 7}})).status_code == status
    assert (await shop.app.events.get(dead["id"])).status is Status.FAILED


async def test_many_dead_letters_are_counted_and_replayed_at_a_rate(
    shop: Caller, clock: ManualClock, hooks: Hooks
) -> None:
    dead = await fail(shop, clock, hooks, *(f"{500 + n}" for n in range(5)))
    await fail(shop, clock, hooks, "404", type="other", target=BANK)
    counted = await shop.get("/v1/dead-letters")
    assert counted["dead_letters"] == 6
    assert {(kind["type"], kind["destination"], kind["events"]) for kind in counted["kinds"]} == {
        ("invoice.overdue", "https://shop.example", 5),
        ("other", "https://bank.example", 1),
    }
    assert (await shop.get("/v1/dead-letters?type=other&error=404"))["dead_letters"] == 1
    some = await shop.post("/v1/events/replay", {"filter": {"type": "invoice.overdue"}, "rate": "1/m", "limit": 3})
    assert (some["replayed"], some["left_alone"]) == (3, 0)
    assert (await shop.get("/v1/dead-letters?type=invoice.overdue"))["dead_letters"] == 2
    before = len(hooks.events)
    for done in (1, 2, 3):
        await shop.app.tick()
        assert len(hooks.events) == before + done, "one a minute"
        clock.advance(MINUTE)
    assert hooks.ids[before:] == [one["id"] for one in dead[:3]], "the oldest first, under their ids"
    assert (await shop.post("/v1/events/replay", {"filter": {"status": "COMPLETED"}}))["replayed"] == 0
    rest = await shop.post("/v1/events/replay", {"filter": {}})
    assert rest["replayed"] == 3
    await shop.app.tick()
    assert {event["status"] for event in await all_of(shop)} == {"COMPLETED"}


async def test_many_dead_letters_are_discarded_by_one_request(shop: Caller, clock: ManualClock, hooks: Hooks) -> None:
    await fail(shop, clock, hooks, *(f"{500 + n}" for n in range(3)))
    first = {"filter": {"failed_to": "2026-01-01T00:30:00Z"}, "reason": "too old"}
    done = await shop.post("/v1/events/discard", first)
    assert (done["discarded"], done["left_alone"], done["next_cursor"], done["dry_run"]) == (1, 0, None, False)
    assert (await shop.post("/v1/events/discard", {"filter": {}, "limit": 1}))["discarded"] == 1
    assert (await shop.post("/v1/events/discard", {"filter": {}}))["discarded"] == 1
    assert await shop.get("/v1/dead-letters") == {"dead_letters": 0, "kinds": []}
    reasons = [(await shop.get(f"/v1/events/{one['id']}"))["history"][-1]["detail"] for one in await all_of(shop)]
    assert reasons == [None, None, "too old"]


async def test_a_bad_request_about_many_dead_letters_is_refused(http: Caller) -> None:
    for path in ("replay", "discard"):
        for bad, wanted in (
            ({}, ["filter"]),
            ({"filter": []}, ["filter"]),
            ({"filter": {}, "limit": 0}, ["limit"]),
            ({"filter": {}, "limit": "all"}, ["limit"]),
            ({"filter": {}, "all": True}, ["all"]),
            ({"filter": {"status": []}}, ["filter.status"]),
            ({"filter": {"due_from": None}}, ["filter.due_from"]),
        ):
            assert paths(await http("POST", f"/v1/events/{path}", bad)) == wanted, (path, bad)
        assert paths(await http("POST", f"/v1/events/{path}", [])) == ["body"]
    for rate in (5, "fast", "0/s", "-1/s", "1/y"):
        assert paths(await http("POST", "/v1/events/replay", {"filter": {}, "rate": rate})) == ["rate"]


async def test_a_filter_in_a_body_may_list_statuses(shop: Caller, clock: ManualClock, hooks: Hooks) -> None:
    await fail(shop, clock, hooks, "500")
    chosen = {"status": ["failed", "Pending"], "due_to": "2026-02-01T00:00:00Z", "destination": "https://shop.example"}
    assert (await shop.post("/v1/events/replay", {"filter": chosen}))["replayed"] == 1


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("destination", "two words"),
        ("destination", "https://a.example\\b.example"),
        ("user_id", "{019a8f2e-6c00-7abc-8def-0123456789ab}"),
        ("user_id", "019a8f2e6c007abc8def0123456789ab"),
    ],
)
async def test_a_filter_value_that_names_nothing_is_refused(http: Caller, field: str, bad: str) -> None:
    assert paths(await http("GET", f"/v1/events?{urlencode({field: bad})}")) == [field]


async def test_the_id_of_a_user_may_be_written_in_capitals(http: Caller) -> None:
    user = await http.app.users.add(**a_user())
    found = await http.get(f"/v1/events?user_id={user.id.upper()}")
    assert {event["user_id"] for event in found["events"]} == {user.id}


async def test_what_does_not_exist_is_told_with_its_tenant(http: Caller) -> None:
    for method, path in (("GET", ""), ("POST", "/cancel")):
        answer = await http(method, f"/v1/events/nobody{path}")
        assert (answer.status_code, "in tenant 'default'" in answer.json()["detail"]) == (404, True), answer.text


async def test_what_was_not_given_is_not_called_none(http: Caller) -> None:
    answer = await http("POST", "/v1/events/nobody/reschedule", {"due_at": None})
    assert "None" not in answer.text
