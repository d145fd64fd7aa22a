"""Acts on many events take some of them in each request: nobody waits long for one transaction."""

from typing import Any

import msgspec
import pytest

from duly import Status
from duly.api.nouns.dead_letter_batches import same
from duly.records.finding.cursors import write_cursor
from duly.records.specs import Everything, InStatus
from duly.testing import ManualClock, Recorder
from tests.conftest import OpenDuly
from tests.dead_letters import dead, reject
from tests.http.calling import Caller, OpenCaller, paths
from tests.make import MINUTE, START

MANY = 12


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request takes five."""
    monkeypatch.setattr("duly.api.nouns.dead_letter_batches.MOST_AT_ONCE", 5)
    monkeypatch.setattr("duly.verbs.events.dead_letters.LETTERS_PER_TRANSACTION", 3)


async def pieces(http: Caller, act: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """All answers, until there is no more."""
    answers = [await http.post(f"/v1/events/{act}", body)]
    while (cursor := answers[-1]["next_cursor"]) is not None:
        answers.append(await http.post(f"/v1/events/{act}", body | {"cursor": cursor}))
    return answers


@pytest.mark.parametrize(("act", "word"), [("replay", "replayed"), ("discard", "discarded")])
@pytest.mark.parametrize(("limit", "wanted"), [(None, [5, 5, 2]), (10, [5, 5]), (7, [5, 2]), (5, [5]), (3, [3])])
async def test_a_request_replays_some_dead_letters_and_says_where_to_go_on(
    http: Caller, act: str, word: str, limit: int | None, wanted: list[int]
) -> None:
    await dead(http.app.store, MANY)
    answers = await pieces(http, act, {"filter": {}} | ({} if limit is None else {"limit": limit}))
    assert [answer[word] for answer in answers] == wanted
    assert (await http.get("/v1/dead-letters"))["dead_letters"] == MANY - sum(wanted)


async def test_events_that_fail_while_a_replay_goes_on_are_not_replayed(http: Caller, clock: ManualClock) -> None:
    ids = await dead(http.app.store, MANY)
    first = await http.post("/v1/events/replay", {"filter": {}})
    assert {event.id for event in await http.app.events.find(InStatus(Status.PENDING))} == set(ids[:5]), "the oldest"
    clock.advance(MINUTE)
    await reject(http.app.store)
    await dead(http.app.store, 3)
    answers = [first]
    while (cursor := answers[-1]["next_cursor"]) is not None:
        answers.append(await http.post("/v1/events/replay", {"filter": {}, "cursor": cursor}))
    assert [answer["replayed"] for answer in answers] == [5, 5, 2]
    assert (await http.get("/v1/dead-letters"))["dead_letters"] == 5 + 3


async def test_the_rate_of_a_replay_is_kept_from_one_request_to_the_next(http: Caller) -> None:
    await dead(http.app.store, MANY)
    answers = await pieces(http, "replay", {"filter": {}, "rate": "1/m"})
    assert [answer["last_ready_at"] for answer in answers] == [
        f"{START + place * MINUTE:%FT%TZ}" for place in (4, 9, 11)
    ]
    ready = sorted(event.ready for event in await http.app.store.find(Everything(), limit=100) if event.ready)
    assert ready == [START + place * MINUTE for place in range(MANY)]


async def test_a_cursor_of_a_replay_fits_only_the_request_that_gave_it(http: Caller) -> None:
    await dead(http.app.store, MANY)
    body = {"filter": {}, "limit": 9}
    cursor = (await http.post("/v1/events/discard", body))["next_cursor"]
    listed = (await http.get("/v1/events?limit=1"))["next_cursor"]
    for act, bad in (
        ("discard", body | {"limit": 8, "cursor": cursor}),
        ("discard", body | {"reason": "another", "cursor": cursor}),
        ("discard", body | {"filter": {"type": "greet"}, "cursor": cursor}),
        ("replay", body | {"cursor": cursor}),
        ("discard", body | {"cursor": listed}),
        ("discard", body | {"cursor": "no cursor"}),
    ):
        assert paths(await http("POST", f"/v1/events/{act}", bad)) == ["cursor"], bad
    assert (await http.post("/v1/events/discard", body | {"cursor": cursor}))["discarded"] == 4


@pytest.mark.parametrize(
    "place",
    [
        ["2026-01-01T00:00:00", None, None, None],
        ["2026-01-01T00:00:00Z", "no id", None, None],
        ["2026-01-01T00:00:00Z", None, -1, None],
        ["2026-01-01T00:00:00Z", None, None, "9999-01-01T00:00:00Z"],
        ["2026-01-01T00:00:00Z"] * 2,
        {},
    ],
)
async def test_a_made_up_cursor_of_a_replay_is_refused(http: Caller, place: Any) -> None:
    said: dict[str, Any] = {"filter": {}, "rate": None, "limit": None}
    cursor = write_cursor(same(said), msgspec.json.encode(place).decode())
    assert paths(await http("POST", "/v1/events/replay", {"filter": {}, "cursor": cursor})) == ["cursor"]


async def test_events_that_wait_for_an_enabled_target_are_released_by_the_workers(
    duly: OpenDuly, calling: OpenCaller, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request releases some; the rest need not wait for a person."""
    monkeypatch.setattr("duly.api.access.tenancy.MOST_RELEASED", 4)
    monkeypatch.setattr("duly.api.nouns.targets.MOST_RELEASED", 4)
    monkeypatch.setattr("duly.engine.destinations.parking.CHUNK", 2)
    hooks = Recorder()
    http = await calling(await duly(channels={"webhook": hooks}, secret_key="a key of at least thirty-two characters"))
    await http.put("/v1/targets/shop", {"url": "https://shop.example"})
    await http.post("/v1/targets/shop/disable")
    due = {"due_at": f"{START:%FT%TZ}", "type": "greet", "target": {"webhook": {"target": "shop"}}}
    await http.post("/v1/timers", {"timers": [due] * MANY})
    await http.app.tick()
    assert hooks.events == []
    assert await http.app.targets.waiting("shop") == MANY
    assert await http.post("/v1/targets/shop/enable") == {"name": "shop", "events": 4, "more": True}
    assert await http.app.targets.waiting("shop") == MANY - 4
    for _ in range(3):
        await http.app.tick()
    assert len(hooks.events) == MANY
    assert await http.app.targets.waiting("shop") == 0
