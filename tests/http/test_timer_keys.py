"""Keys of timers that have fired, and debounced timers, over HTTP."""

from typing import Any

import pytest

from duly import Event
from duly.testing import ManualClock
from tests.http.calling import Caller, paths
from tests.make import DAY, HOUR, START

DUE, LATER = "2026-12-01T09:00:00Z", "2026-12-02T09:00:00Z"


def a_timer(**changes: Any) -> dict[str, Any]:
    return {"due_at": DUE, "type": "greet", **changes}


async def fired(http: Caller, clock: ManualClock, key: str = "k") -> Event:
    """An event under this key that has fired."""
    if "handler:greet" not in http.app.routes():
        http.app.on("greet")(lambda event: None)
    await http.put(f"/v1/timers/{key}", {"after": "1h", "type": "greet"})
    clock.advance(hours=1)
    await http.app.tick()
    return await http.app.events.by_key(key)


async def test_the_answer_tells_the_change(http: Caller, clock: ManualClock) -> None:
    done = await fired(http, clock)
    due = done.due.isoformat().replace("+00:00", "Z")
    asked = [a_timer(due_at=due), a_timer(due_at=due, payload=1), a_timer(), {"after": "1h", "type": "greet"}]
    answers = [await http("PUT", "/v1/timers/k", body) for body in asked]
    assert [(answer.status_code, answer.json()["change"]) for answer in answers] == [
        (200, "unchanged"), (200, "unchanged"), (200, "already_fired"), (200, "already_fired"),
    ]  # fmt: skip
    assert {answer.json()["id"] for answer in answers} == {done.id}
    again = await http("PUT", "/v1/timers/k", a_timer(once=False))
    moved = await http("PUT", "/v1/timers/k", a_timer(due_at=LATER, once=True))
    assert [(answer.status_code, answer.json()["change"]) for answer in (again, moved)] == [
        (201, "created"), (200, "changed"),
    ]  # fmt: skip
    assert (await http.get("/v1/timers/k"))["id"] == again.json()["id"] != done.id


async def test_bulk_results_count_what_has_fired_already(http: Caller, clock: ManualClock) -> None:
    done = await fired(http, clock)
    await http.put("/v1/timers/open", a_timer())
    many = [a_timer(key="k"), a_timer(key="open", type="bill"), a_timer(key="new"), a_timer()]
    told = await http.post("/v1/timers", {"timers": many})
    results = told.pop("results")
    assert told.pop("warnings") == []
    assert told == {"created": 2, "changed": 0, "unchanged": 0, "already_fired": 1, "refused": 1}
    assert [result["status"] for result in results] == ["already_fired", "refused", "created", "created"]
    assert (results[0]["id"], results[1]["id"]) == (done.id, None)
    [error] = results[1]["errors"]
    assert error["path"] == "type"
    assert "of type 'greet': a timer of type 'bill' needs another key" in error["message"]
    again = await http.post("/v1/timers", {"timers": [a_timer(key="k", once=False)]})
    assert (again["created"], again["already_fired"]) == (1, 0)


async def test_several_timers_of_a_bulk_request_for_a_key_that_has_fired_are_told_alike(
    http: Caller, clock: ManualClock
) -> None:
    await fired(http, clock)
    told = await http.post("/v1/timers", {"timers": [a_timer(key="k"), a_timer(key="k", due_at=LATER)]})
    assert [result["status"] for result in told["results"]] == ["already_fired"] * 2


async def test_another_type_under_an_open_key_is_a_conflict(http: Caller) -> None:
    await http.put("/v1/timers/k", a_timer())
    refused = await http("PUT", "/v1/timers/k", a_timer(type="bill"))
    assert refused.status_code == 409
    assert "of type 'greet': a timer of type 'bill' needs another key" in refused.json()["detail"]


async def test_replaying_a_dead_letter_whose_key_is_taken_is_a_conflict(http: Caller, clock: ManualClock) -> None:
    @http.app.on("greet")
    def fail(event: Event) -> None:
        raise ConnectionError

    await http.put("/v1/timers/k", {"after": "0s", "type": "greet", "retry": {"max_attempts": 1}})
    await http.app.tick()
    dead = await http.app.events.by_key("k")
    holder = await http.put("/v1/timers/k", a_timer(once=False))
    refused = await http("POST", f"/v1/events/{dead.id}/replay")
    assert refused.status_code == 409
    assert f"is taken by event {holder['id']}" in refused.json()["detail"]


async def test_a_timer_may_be_debounced(http: Caller, clock: ManualClock) -> None:
    body = {"type": "greet", "quiet": "24h", "max_wait": "36h"}
    first = await http("PUT", "/v1/timers/k", body)
    assert (first.status_code, first.json()["quiet"], first.json()["max_wait"]) == (201, "1d", "1d12h")
    assert first.json()["first_asked_at"] == START.isoformat().replace("+00:00", "Z")
    clock.advance(HOUR)
    moved = await http("PUT", "/v1/timers/k", body)
    assert (moved.status_code, moved.json()["change"]) == (200, "changed")
    assert (await http.app.events.by_key("k")).due == START + HOUR + DAY
    many = [{**body, "key": "k"}, {**body, "key": "new"}, body]
    told = await http.post("/v1/timers", {"timers": many})
    assert [result["status"] for result in told["results"]] == ["unchanged", "created", "refused"]
    assert [error["path"] for error in told["results"][2]["errors"]] == ["key"]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"quiet": "1h"}, ["due_at"]),
        ({"due_at": None}, ["due_at"]),
        ({"due_at": None, "after": "1h", "quiet": "1h"}, ["after"]),
        ({"max_wait": "1h"}, ["max_wait"]),
        ({"due_at": None, "quiet": "2h", "max_wait": "1h"}, ["max_wait"]),
        ({"due_at": None, "quiet": True}, ["quiet"]),
        ({"due_at": None, "quiet": "0s", "once": 1}, ["once", "quiet"]),
        ({"once": "false"}, ["once"]),
    ],
)
async def test_options_that_contradict_each_other_are_refused(
    http: Caller, changes: dict[str, Any], wrong: list[str]
) -> None:
    assert paths(await http("PUT", "/v1/timers/k", a_timer(**changes))) == wrong
    assert (await http("GET", "/v1/timers/k")).status_code == 404


async def test_a_key_whose_event_was_deleted_still_tells_that_it_has_fired(http: Caller, clock: ManualClock) -> None:
    done = await fired(http, clock)
    await http.app.store.delete_ended([done.id])
    again = await http("PUT", "/v1/timers/k", a_timer())
    assert (again.status_code, again.json()["change"], again.json()["id"]) == (200, "already_fired", done.id)
    assert (again.json()["status"], again.json()["payload"], again.json()["lateness_seconds"]) == ("COMPLETED", None, 0)
    assert (await http.get("/v1/timers/k"))["id"] == done.id
    refused = await http("DELETE", "/v1/timers/k")
    assert (refused.status_code, "it is COMPLETED" in refused.json()["detail"]) == (409, True)
    told = await http.post("/v1/timers", {"timers": [a_timer(key="k")]})
    assert (told["already_fired"], told["results"][0]["id"]) == (1, done.id)
    assert (await http("PUT", "/v1/timers/k", a_timer(once=False))).status_code == 201
