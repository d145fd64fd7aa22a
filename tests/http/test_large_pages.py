"""A page ends early where its rows are large, and the next one goes on: whatever the list."""

import tracemalloc
from typing import Any

import pytest

from duly.api.protocol.query_string import RequestedPage
from duly.ports import PAGE_BYTES
from duly.records.event import Timer
from duly.verbs import histories, targets
from duly.verbs.schedules import lookups as schedules
from duly.verbs.users import users
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.http.tenants import SECRET_KEY
from tests.make import HOUR

MEGABYTE = 1_000_000


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    return await calling(await duly(secret_key=SECRET_KEY))


async def all_of(http: Caller, path: str, name: str) -> list[list[Any]]:
    """The pages of a list."""
    found, query = [], "limit=1000"
    while True:
        page = await http.get(f"{path}?{query}")
        found.append(page[name])
        if page["next_cursor"] is None:
            return found
        query = f"limit=1000&cursor={page['next_cursor']}"


async def test_a_page_of_large_events_is_bounded_in_bytes_written_and_read(http: Caller) -> None:
    for _ in range(4):
        await http.app.add_many(Timer(HOUR, "x", payload="x" * MEGABYTE) for _ in range(20))
    tracemalloc.start()
    try:
        first = await http.get("/v1/events?limit=1000")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(first["events"]) == PAGE_BYTES // MEGABYTE + 1
    assert first["next_cursor"] is not None
    assert peak < 75 * MEGABYTE, "not all 80 of them were read"
    found = [event["id"] for page in await all_of(http, "/v1/events", "events") for event in page]
    assert len(found) == len(set(found)) == 80
    assert found == sorted(found, reverse=True)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (histories, schedules, targets, users):
        monkeypatch.setattr(module, "PAGE_BYTES", 1000)


async def ten_of_each(http: Caller) -> None:
    user = {"first_name": "Ada", "last_name": "L", "date_of_birth": "1990-12-10", "timezone": "UTC"}
    schedule = {"type": "x", "rule": {"every": "1h"}, "payload": "x" * 400}
    for number in range(10):
        await http.post("/v1/users", {**user, "attributes": {"note": "x" * 400}})
        await http.put(f"/v1/schedules/s{number}", schedule)
        await http.put(f"/v1/targets/t{number}", {"url": f"https://shop.example/{number}?{'x' * 400}"})


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("name", ["users", "schedules", "targets"])
async def test_every_list_of_large_entries_ends_early_and_goes_on(http: Caller, name: str) -> None:
    await ten_of_each(http)
    found = await all_of(http, f"/v1/{name}", name)
    assert len(found) > 2
    assert all(found)
    ids = [one.get("id") or one["name"] for page in found for one in page]
    assert len(ids) == len(set(ids)) == 10


@pytest.mark.usefixtures("small_pages")
async def test_histories_have_pages(http: Caller) -> None:
    await ten_of_each(http)
    [user] = (await http.get("/v1/users?limit=1"))["users"]
    for number in range(10):
        await http.post("/v1/schedules/s0/pause", {"reason": f"{number}" + "x" * 300})
        await http.post("/v1/schedules/s0/resume", {})
        await http.put(f"/v1/users/{user['id']}", {"last_name": f"Number {number}"})
    event = await http.put("/v1/timers/a", {"type": "x", "due_at": "2030-01-01T00:00:00Z"})
    for day in range(10, 20):
        await http.post(f"/v1/events/{event['id']}/reschedule", {"due_at": f"2030-01-{day}T00:00:00Z"})
    whole = {
        "/v1/schedules/s0/history": await http.app.schedules.history("s0"),
        f"/v1/users/{user['id']}/history": await http.app.users.history(user["id"]),
        f"/v1/events/{event['id']}/history": await http.app.events.history(event["id"]),
    }
    for path, entries in whole.items():
        found = await all_of(http, path, "history")
        assert [one["act"] for page in found for one in page] == [entry.act for entry in entries]
        one_by_one, query = [], "limit=1"
        while query:
            page = await http.get(f"{path}?{query}")
            one_by_one += page["history"]
            query = "" if page["next_cursor"] is None else f"limit=1&cursor={page['next_cursor']}"
        assert one_by_one == [one for page in found for one in page]
    assert len(await all_of(http, "/v1/schedules/s0/history", "history")) > 2


@pytest.mark.parametrize("cursor", ["1000000000", "x", "-1", "1.5"])
async def test_a_cursor_that_no_history_gave_is_refused(http: Caller, cursor: str) -> None:
    await http.put("/v1/schedules/s", {"type": "x", "rule": {"every": "1h"}})
    forged = RequestedPage({}).cursor(cursor)
    assert (await http("GET", f"/v1/schedules/s/history?cursor={forged}")).status_code == 422


async def test_an_event_shows_where_its_history_goes_on(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.api.nouns.events.FIRST_ENTRIES", RequestedPage({"limit": "3"}))
    event = await http.put("/v1/timers/a", {"type": "x", "due_at": "2030-01-01T00:00:00Z"})
    for day in range(10, 15):
        await http.post(f"/v1/events/{event['id']}/reschedule", {"due_at": f"2030-01-{day}T00:00:00Z"})
    shown = await http.get(f"/v1/events/{event['id']}")
    rest = await http.get(f"/v1/events/{event['id']}/history?cursor={shown['history_cursor']}")
    entries = await http.app.events.history(event["id"])
    assert [one["detail"] for one in shown["history"] + rest["history"]] == [entry.detail for entry in entries]
