"""Finding things over HTTP: counts, the order of due times, stuck events, and users by name, key and zone."""

from typing import Any

import pytest

from duly.testing import ManualClock
from tests.http.calling import Caller
from tests.make import HOUR, a_user


async def timers(http: Caller, *hours: int) -> list[str]:
    made = []
    for hour in hours:
        due = f"2026-01-01T{hour:02}:00:00Z"
        made.append((await http.put(f"/v1/timers/at-{hour}", {"due_at": due, "type": "greet"}))["id"])
    return made


async def get(http: Caller, address: str) -> Any:
    answer = await http("GET", address)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_list_tells_how_many_match_if_asked(http: Caller) -> None:
    await timers(http, 5, 6, 7)
    page = await get(http, "/v1/events?limit=1&count=true&type=greet")
    assert (len(page["events"]), page["count"]) == (1, {"value": 3, "exact": True})
    assert "count" not in await get(http, "/v1/events?limit=1")
    assert "count" not in await get(http, "/v1/events?limit=1&count=false")
    assert (await get(http, "/v1/users?count=true"))["count"] == {"value": 0, "exact": True}
    assert (await get(http, "/v1/schedules?count=true"))["count"] == {"value": 0, "exact": True}
    refused = await http("GET", "/v1/schedules?count=maybe")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "count")


async def test_the_next_page_is_not_counted_again(http: Caller) -> None:
    await timers(http, 5, 6)
    first = await http("GET", "/v1/events?limit=1&count=true&sort=due")
    assert "count=" not in first.links["next"]["url"]
    assert "sort=due" in first.links["next"]["url"]


async def test_waiting_events_are_listed_in_the_order_of_their_due_times(http: Caller) -> None:
    nine, five, seven = await timers(http, 9, 5, 7)
    assert [one["id"] for one in (await get(http, "/v1/events?sort=due"))["events"]] == [five, seven, nine]
    page = await get(http, "/v1/events?sort=-due&limit=1")
    assert (page["events"][0]["id"], page["next_after"]) == (nine, f"2026-01-01T09:00:00Z/{nine}")
    for rest in (f"cursor={page['next_cursor']}", f"after={page['next_after']}"):
        found = await get(http, f"/v1/events?sort=-due&{rest}")
        assert [one["id"] for one in found["events"]] == [seven, five]
        assert (found["next_cursor"], found["next_after"]) == (None, None)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("sort=colour", "sort"),
        ("sort=due&status=FAILED", "sort"),
        ("sort=due&status=PENDING,FAILED", "sort"),
        ("sort=due&stuck=true", "sort"),
        ("sort=due&after=01a1e15c-88fe-77cf-98f6-68e11067ac37", "after"),
        ("after=2026-01-01T09:00:00Z/01a1e15c-88fe-77cf-98f6-68e11067ac37", "after"),
    ],
)
async def test_an_order_that_is_not_possible_is_refused(http: Caller, query: str, path: str) -> None:
    refused = await http("GET", f"/v1/events?{query}")
    assert refused.status_code == 422
    assert [one["path"] for one in refused.json()["errors"]] == [path]


async def test_a_cursor_of_another_order_is_refused(http: Caller) -> None:
    await timers(http, 5, 6)
    cursor = (await get(http, "/v1/events?limit=1"))["next_cursor"]
    assert (await http("GET", f"/v1/events?limit=1&sort=due&cursor={cursor}")).status_code == 422


async def test_stuck_events_are_found_over_http(http: Caller, clock: ManualClock) -> None:
    [late, _] = await timers(http, 1, 9)
    clock.advance(3 * HOUR)
    stuck = await get(http, "/v1/events?stuck=true&count=true")
    assert ([one["id"] for one in stuck["events"]], stuck["count"]["value"]) == ([late], 1)
    assert (await get(http, "/v1/events?stuck=true&late_by=5h"))["events"] == []


async def test_users_are_found_by_name_key_and_zone(http: Caller) -> None:
    for key, first, zone in (("a", "Ada", "Europe/London"), ("b", "Bob", "Europe/London"), ("c", "Adam", "UTC")):
        await http.app.users.add(**a_user(key=key, first_name=first, timezone=zone))
    for query, found in (
        ("name=ada", ["c", "a"]),
        ("name=ADA&timezone=UTC", ["c"]),
        ("key=b", ["b"]),
        ("key=b&name=ada", []),
        ("timezone=Europe/London&count=true", ["b", "a"]),
    ):
        page = await get(http, f"/v1/users?{query}")
        assert [user["key"] for user in page["users"]] == found, query
    refused = await http("GET", "/v1/users?timezone=Mars/Base&name=%20")
    assert [one["path"] for one in refused.json()["errors"]] == ["name", "timezone"]


async def test_each_template_that_is_listed_is_a_rule(http: Caller) -> None:
    found = {one["name"]: one for one in (await get(http, "/v1/templates"))["templates"]}
    assert found["hourly"]["settings"] == {"rule": {"cron": "0 * * * *"}}
    assert (found["hourly"]["built_in"], found["hourly"]["meaning"]) == (True, "every hour, on the hour")
    for name, one in found.items():
        for body in ({"rule": {"template": name}}, {"template": name}):
            made = await http.put(f"/v1/schedules/{name}", {"type": "x", **body})
            assert made["rule"]["cron"] == one["settings"]["rule"]["cron"]
