"""Acts over HTTP and with the client on everything that a filter matches, a portion in each request."""

import pytest

from duly import every
from duly.api.nouns import acts
from tests.http.calling import Caller, paths
from tests.make import HOUR, START

NIGHTLY = {"filter": {"tag": ["nightly"]}}


async def shop(http: Caller) -> None:
    for number in range(5):
        await http.app.schedules.put(f"nightly-{number}", every("1h", start=START), "report", tags=["nightly"])
    await http.app.schedules.put("other", every("1h", start=START), "report")
    await http.app.schedules.put("not-mine", every("1h", start=START), "report", tenant="acme", tags=["nightly"])


async def enabled(http: Caller) -> int:
    return sum(one.enabled for one in await http.app.schedules.list())


async def test_tags_are_set_changed_and_shown(http: Caller) -> None:
    body = {"type": "report", "rule": {"every": "1h"}, "tags": ["b", "a"]}
    created = await http("PUT", "/v1/schedules/it", body)
    assert created.json()["tags"] == ["a", "b"]
    assert (await http("PUT", "/v1/schedules/it", body | {"tags": None})).json()["tags"] == ["a", "b"]
    assert (await http("PATCH", "/v1/schedules/it", {"payload": 1})).json()["tags"] == ["a", "b"]
    assert (await http("PATCH", "/v1/schedules/it", {"tags": ["c"]})).json()["tags"] == ["c"]
    assert (await http("PATCH", "/v1/schedules/it", {"tags": None})).json()["tags"] == []
    assert paths(await http("PATCH", "/v1/schedules/it", {"tags": ["a b"]})) == ["tags[0]"]


async def test_schedules_are_listed_by_filters(http: Caller) -> None:
    await shop(http)
    found = await http.get("/v1/schedules?tag=nightly&enabled=true&name_prefix=nightly-&count=true&limit=3")
    assert [one["name"] for one in found["schedules"]] == ["nightly-0", "nightly-1", "nightly-2"]
    assert found["count"] == {"value": 5, "exact": True}
    rest = await http.get(
        f"/v1/schedules?tag=nightly&enabled=true&name_prefix=nightly-&limit=3&cursor={found['next_cursor']}"
    )
    assert [one["name"] for one in rest["schedules"]] == ["nightly-3", "nightly-4"]
    wrong = "/v1/schedules?tag=a%20b&enabled=maybe&halt_kind=lost&timezone=Mars&last_status=gone&limit=0"
    assert sorted(paths(await http("GET", wrong))) == [
        "enabled", "halt_kind", "last_status", "limit", "tag", "timezone",
    ]  # fmt: skip


async def test_many_schedules_are_paused_in_portions_that_a_cursor_continues(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "MOST_SCHEDULES", 2)
    await shop(http)
    would = await http.post("/v1/schedules/pause?dry_run=true", NIGHTLY)
    assert would == {
        "done": 0, "left_alone": 0, "dry_run": True, "would": {"value": 5, "exact": True}, "next_cursor": None,
        "kinds": [{"tenant": "default", "type": "report", "state": "enabled", "many": 5}],
    }  # fmt: skip
    assert await enabled(http) == 7
    said = NIGHTLY | {"reason": "migration", "until": "2h"}
    done, cursor = 0, None
    while True:
        seen = await http.post("/v1/schedules/pause", said if cursor is None else said | {"cursor": cursor})
        done, cursor = done + seen["done"], seen["next_cursor"]
        if cursor is None:
            break
        other = await http("POST", "/v1/schedules/pause", NIGHTLY | {"cursor": cursor})
        assert paths(other) == ["cursor"], "a cursor belongs to its request"
    assert (done, await enabled(http)) == (5, 2), "the other tenant's is not touched"
    assert (await http.get("/v1/schedules/nightly-4"))["pause_reason"] == "migration"


async def test_what_is_wrong_with_an_act_by_a_filter_is_told(http: Caller) -> None:
    await shop(http)
    for act in ("schedules/pause", "schedules/resume", "schedules/trigger", "events/cancel"):
        path = f"/v1/{act}"
        assert paths(await http("POST", path, {})) == ["filter"]
        assert paths(await http("POST", path, {"filter": {}})) == ["filter"]
        assert paths(await http("POST", path, {"filter": {"type": 5}})) == ["filter.type"]
        assert paths(await http("POST", path, {"filter": {"colour": "red"}})) == ["filter.colour"]
        assert paths(await http("POST", path, {"filter": {"type": "x"}, "cursor": "x"})) == ["cursor"]
        assert paths(await http("POST", f"{path}?dry_run=maybe", {"filter": {"type": "x"}})) == ["dry_run"]
    bad = {"filter": {"tag": "nightly"}, "until": "never", "reason": 5}
    assert sorted(paths(await http("POST", "/v1/schedules/pause", bad))) == ["reason", "until"]
    past = {"filter": {"tag": "nightly"}, "until": "2020-01-01T00:00:00Z"}
    assert paths(await http("POST", "/v1/schedules/pause", past)) == ["until"]
    late = {"filter": {"tag": "nightly"}, "passed": "later"}
    for act in ("pause", "resume"):
        assert paths(await http("POST", f"/v1/schedules/{act}", late)) == ["passed"]
    assert await enabled(http) == 7


async def test_events_are_cancelled_and_everything_only_if_it_is_said(http: Caller) -> None:
    await shop(http)
    for number in range(3):
        await http.app.at(START + HOUR, "letter", key=f"letter-{number}")
    await http.app.at(START + HOUR, "letter", tenant="acme")
    seen = await http.post("/v1/events/cancel", {"filter": {"type": "letter"}, "reason": "a wrong price"})
    assert (seen["done"], seen["left_alone"], seen["next_cursor"]) == (3, 0, None)
    everything = {"filter": {}, "everything": True}
    assert (await http.post("/v1/events/cancel?dry_run=true", everything))["would"]["value"] == 6
    assert (await http.post("/v1/schedules/pause", everything))["done"] == 6
    assert await enabled(http) == 1


async def test_dry_runs_of_replays_and_discards_tell_how_many(http: Caller) -> None:
    for act in ("replay", "discard"):
        seen = await http.post(f"/v1/events/{act}?dry_run=true", {"filter": {}})
        assert (seen["dry_run"], seen["would"], seen["kinds"]) == (True, {"value": 0, "exact": True}, [])
        assert not (await http.post(f"/v1/events/{act}", {"filter": {}}))["dry_run"]
        assert paths(await http("POST", f"/v1/events/{act}?dry_run=maybe", {"filter": {}})) == ["dry_run"]
