"""Timers over HTTP, one by one and many at once."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from duly import Status
from duly.api.access.tenancy import Tenancy
from duly.testing import ManualClock
from tests.http.calling import Caller, paths
from tests.make import START

DUE = "2026-12-01T09:00:00Z"


def a_timer(**changes: Any) -> dict[str, Any]:
    return {"due_at": DUE, "type": "invoice.overdue", "payload": {"invoice": 7}, **changes}


async def test_a_timer_is_created_moved_and_left_as_it_is(http: Caller) -> None:
    created = await http("PUT", "/v1/timers/invoice-7", a_timer())
    assert (created.status_code, created.headers["location"]) == (201, "/v1/timers/invoice-7")
    same = await http("PUT", "/v1/timers/invoice-7", a_timer())
    moved = await http("PUT", "/v1/timers/invoice-7", a_timer(due_at="2026-12-02T10:00:00+01:00"))
    assert (same.status_code, moved.status_code) == (200, 200)
    assert [answer.json()["change"] for answer in (created, same, moved)] == ["created", "unchanged", "changed"]
    assert same.json() == {**created.json(), "change": "unchanged"}
    assert moved.json()["due_at"] == "2026-12-02T09:00:00Z"
    assert {**await http.get("/v1/timers/invoice-7"), "change": "changed", "warnings": []} == moved.json()
    assert {answer.json()["id"] for answer in (created, same, moved)} == {created.json()["id"]}


async def test_a_timer_that_has_fired_does_not_change_any_more(http: Caller, clock: ManualClock) -> None:
    @http.app.on("invoice.overdue")
    def chase(event: Any) -> None:
        assert event.payload == {"invoice": 7}

    await http.put("/v1/timers/invoice-7", {"after": "1h", "type": "invoice.overdue", "payload": {"invoice": 7}})
    clock.advance(hours=1)
    await http.app.tick()
    again = await http("PUT", "/v1/timers/invoice-7", a_timer())
    assert again.status_code == 200
    assert again.json()["status"] == Status.COMPLETED
    refused = await http("DELETE", "/v1/timers/invoice-7")
    assert refused.status_code == 409
    assert "it is COMPLETED" in refused.json()["detail"]


async def test_a_cancelled_timer_frees_its_key(http: Caller) -> None:
    first = await http.put("/v1/timers/a", a_timer())
    assert (await http.delete("/v1/timers/a"))["status"] == "CANCELLED"
    assert (await http.get("/v1/timers/a"))["status"] == "CANCELLED", "the latest, as none is open"
    assert (await http("DELETE", "/v1/timers/a")).status_code == 404
    again = await http("PUT", "/v1/timers/a", a_timer())
    assert (again.status_code, again.json()["id"] != first["id"]) == (201, True)


@pytest.mark.parametrize("key", ["a/b", "ä ö", "%2F", "preview", "a?b#c", "x" * 500, "..;/"])
async def test_a_key_of_a_timer_may_be_any_text(http: Caller, key: str) -> None:
    address = f"/v1/timers/{quote(key, safe='')}"
    created = await http("PUT", address, a_timer())
    assert created.status_code == 201
    assert created.json()["key"] == key
    assert (await http.get(created.headers["location"]))["key"] == key


async def test_all_problems_of_a_timer_are_told_at_once(http: Caller) -> None:
    bad = {"due_at": 1764579600, "typ": "x", "retry": {"base": 5}, "target": {"pigeon": "coop"}, "key": "other"}
    assert paths(await http("PUT", "/v1/timers/a", bad)) == ["typ", "key", "type", "due_at", "retry.base", "target"]
    assert (await http("GET", "/v1/timers/a")).status_code == 404


@pytest.mark.parametrize(
    "due",
    [1764579600, "2026-12-01", "2026-12-01T09:00:00", "tomorrow", "", None, True, ["2026-12-01T09:00:00Z"],
     "2026-02-30T00:00:00Z", "9999-12-31T23:59:59Z", "2026-12-01T25:00:00Z", "20261201T090000Z"],
)  # fmt: skip
async def test_text_that_is_no_instant_is_refused(http: Caller, due: Any) -> None:
    assert paths(await http("PUT", "/v1/timers/a", a_timer(due_at=due))) == ["due_at"]


async def test_a_timer_can_expire(http: Caller) -> None:
    told = await http.put("/v1/timers/invoice-7", {"type": "x", "after": "1h", "expires": "90m"})
    assert told["expires"] == "1h30m"
    assert (await http.get("/v1/timers/invoice-7"))["expires"] == "1h30m"
    assert (await http.put("/v1/timers/invoice-7", {"type": "x", "after": "1h"}))["expires"] is None


async def test_a_span_may_be_a_number_of_seconds(http: Caller) -> None:
    told = await http.put("/v1/timers/a", {"type": "x", "quiet": 60, "max_wait": 90.5, "expires": 3600})
    assert (told["quiet"], told["max_wait"], told["expires"]) == ("1m", "1m30s500ms", "1h")


async def test_a_debounced_timer_cannot_be_once(http: Caller) -> None:
    refused = await http("PUT", "/v1/timers/a", {"type": "x", "quiet": "1m", "once": True})
    assert [error["path"] for error in refused.json()["errors"]] == ["once"]
    for once in (False, None):
        assert (await http("PUT", "/v1/timers/a", {"type": "x", "quiet": "1m", "once": once})).status_code in (200, 201)


@pytest.mark.parametrize("wrong", [0, True, "soon", "0s", "400d", {}, ["1h"]], ids=str)
async def test_an_expiry_of_timers_and_schedules_that_is_no_span_is_refused(http: Caller, wrong: Any) -> None:
    timer = await http("PUT", "/v1/timers/x", {"type": "x", "expires": wrong})
    assert [error["path"] for error in timer.json()["errors"]] == ["due_at", "expires"]
    schedule = {"type": "x", "rule": {"cron": "@daily"}, "expires": wrong, "jitter": 5}
    refused = await http("PUT", "/v1/schedules/x", schedule)
    assert {error["path"] for error in refused.json()["errors"]} == {"expires", "jitter"}


async def test_one_bad_timer_of_many_does_not_harm_the_others(http: Caller) -> None:
    many = [
        a_timer(key="a"),
        {"type": "x"},
        a_timer(),
        5,
        a_timer(key="a", due_at="2027-01-01T00:00:00Z"),
        a_timer(key="a\n"),
    ]
    done = await http.post("/v1/timers", {"timers": many})
    assert [result["status"] for result in done["results"]] == [
        "created", "refused", "created", "refused", "changed", "refused",
    ]  # fmt: skip
    assert (done["created"], done["changed"], done["refused"]) == (2, 1, 3)
    assert done["results"][0]["id"] == done["results"][4]["id"]
    assert [error["path"] for error in done["results"][1]["errors"]] == ["due_at"]
    assert (await http.get("/v1/timers/a"))["due_at"] == "2027-01-01T00:00:00Z"
    assert len((await http.get("/v1/events"))["events"]) == 2


async def test_of_several_entries_for_one_timer_the_last_is_put(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    put = Tenancy.put

    async def counted(self: Tenancy, events: Any) -> Any:
        asked.append(len(events))
        return await put(self, events)

    monkeypatch.setattr(Tenancy, "put", counted)
    wishes = [a_timer(key="a", payload=number) for number in (1, 2, 2, 3)]
    done = await http.post("/v1/timers", {"timers": [*wishes, a_timer(key="b")] * 500})
    assert asked == [2]
    assert [one["status"] for one in done["results"][:5]] == ["created", "changed", "unchanged", "changed", "created"]
    assert [one["status"] for one in done["results"][-5:]] == [*["changed"] * 2, "unchanged", "changed", "unchanged"]
    assert len({one["id"] for one in done["results"]}) == 2
    assert (await http.get("/v1/timers/a"))["payload"] == 3
    again = await http.post("/v1/timers", {"timers": wishes[2:]})
    assert [one["status"] for one in again["results"]] == ["unchanged", "unchanged"]  # it ends as it was
    moved = await http.post("/v1/timers", {"timers": wishes[1:3]})
    assert [one["status"] for one in moved["results"]] == ["changed", "unchanged"]


async def test_entries_for_a_timer_that_was_started_change_nothing(http: Caller, clock: ManualClock) -> None:
    http.app.on("invoice.overdue")(lambda event: None)
    await http.put("/v1/timers/a", {"after": "1h", "type": "invoice.overdue"})
    clock.advance(hours=1)
    await http.app.tick()
    due = f"{clock.now():%FT%TZ}"
    again = [a_timer(key="a", due_at=due, payload=number) for number in range(3)]
    done = await http.post("/v1/timers", {"timers": again})
    assert [one["status"] for one in done["results"]] == ["unchanged"] * 3


@pytest.mark.parametrize("body", [{}, {"timers": []}, {"timers": {}}, {"timers": [a_timer()], "more": 1}, [], 5])
async def test_a_body_that_is_no_list_of_timers_is_refused(http: Caller, body: Any) -> None:
    assert paths(await http("POST", "/v1/timers", body)) == ["timers"]


@pytest.mark.parametrize("after", ["1h30m", 5400, 5400.0])
async def test_a_delay_is_text_or_a_number_of_seconds(http: Caller, clock: ManualClock, after: Any) -> None:
    made = await http.put("/v1/timers/a", {"after": after, "type": "greet"})
    assert made["due_at"] == f"{clock.now() + timedelta(minutes=90):%FT%TZ}"


@pytest.mark.parametrize("after", [-1, 1e12, True, "5400", "-1h", [], {}])
async def test_a_delay_that_cannot_be_read_says_what_is_allowed(http: Caller, after: Any) -> None:
    refused = await http("PUT", "/v1/timers/a", {"after": after, "type": "greet"})
    [problem] = refused.json()["errors"]
    assert (refused.status_code, problem["path"]) == (422, "after")
    assert "a duration such as 30s, 1h30m, 90d or 250ms" in problem["message"]


async def test_a_delay_counts_from_the_stores_now(http: Caller) -> None:
    timer = await http.put("/v1/timers/a", {"after": "90m", "type": "x"})
    assert timer["due_at"] == (START + timedelta(minutes=90)).isoformat().replace("+00:00", "Z")


async def test_a_timer_that_runs_is_asked_to_stop(http: Caller) -> None:
    for key, address, method in (("a", "/v1/timers/a", "DELETE"), ("b", "/v1/events/b/cancel", "POST")):
        made = await http.put(f"/v1/timers/{key}", {**a_timer(), "due_at": "2026-01-01T00:00:00Z"})
        [event] = await http.app.store.claim("w1", {"handler:invoice.overdue": 1}, timedelta(seconds=30))
        assert event.id == made["id"]
        asked = await http(method, address)
        assert (asked.status_code, asked.json()["status"], asked.json()["stop_requested_at"]) == (
            202,
            "PROCESSING",
            "2026-01-01T00:00:00Z",
        )
        shown = await http.get(f"/v1/events/{key}")
        assert [entry["act"] for entry in shown["history"]] == ["stop requested"]
        assert asked.json().items() <= shown.items()
