"""Requests that take long to carry out: others are answered meanwhile."""

import asyncio
import json
import math
import threading
from collections.abc import AsyncIterator, Callable
from pkgutil import resolve_name
from typing import Any

import pytest

from duly.api.access import preview_places
from duly.api.nouns import timers
from duly.api.protocol import bodies, listing
from duly.api.protocol.bodies import MOST_LEVELS
from duly.decide.series.preview import preview
from duly.engine.series import rule_threads
from duly.rules.recurrence import Every
from duly.rules.timetable import Timetable
from duly.verbs.schedules import lookups as schedules
from tests.http.calling import Caller

LEAP_DAYS = {"rule": {"cron": "0 0 29 2 *"}, "after": "2026-01-01T00:00:00Z"}
SCHEDULE = {"type": "x", "rule": {"cron": "0 0 29 2 *"}}


class Slow(threading.Event):
    """Rules are evaluated no further until this is set."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    may_go_on = Slow()
    after = Timetable.after

    def slowly(self: Timetable, instant: Any) -> Any:
        may_go_on.begun.set()
        assert may_go_on.wait(60), "nobody else was answered meanwhile"
        return after(self, instant)

    monkeypatch.setattr(Timetable, "after", slowly)
    return may_go_on


@pytest.mark.parametrize("stored", [True, False], ids=["schedule", "rule"])
async def test_other_requests_are_answered_while_a_rule_is_evaluated(http: Caller, slow: Slow, stored: bool) -> None:
    slow.set()
    await http.put("/v1/schedules/leap", SCHEDULE)
    slow.clear()
    asked = ("GET", "/v1/schedules/leap/preview") if stored else ("POST", "/v1/schedules/preview", LEAP_DAYS)
    asking = asyncio.create_task(http(*asked))
    for _ in range(5):
        assert (await http("GET", "/v1/events")).status_code == 200
    assert not asking.done()
    slow.set()
    answer = await asking
    assert [one["due_at"][:10] for one in answer.json()["occurrences"][:2]] == ["2028-02-29", "2032-02-29"]
    assert answer.json()["complete"] is True


@pytest.mark.parametrize("verb", ["PUT", "PATCH"])
async def test_other_requests_are_answered_while_a_schedule_that_is_put_is_evaluated(
    http: Caller, slow: Slow, verb: str
) -> None:
    slow.set()
    await http.put("/v1/schedules/leap", {"type": "x", "rule": {"every": "1h"}})
    slow.clear()
    slow.begun.clear()
    asking = asyncio.create_task(http(verb, "/v1/schedules/leap", SCHEDULE))
    async with asyncio.timeout(60):
        while not slow.begun.is_set():  # noqa: ASYNC110 - a thread cannot tell of it
            await asyncio.sleep(0.01)
    for _ in range(5):
        assert (await http("GET", "/healthz")).status_code == 200
    assert not asking.done()
    slow.set()
    assert (await asking).json()["next_at"][5:10] == "02-29"


@pytest.mark.parametrize("verb", ["cancel", "skip"])
async def test_other_requests_are_answered_while_the_successor_of_a_head_is_evaluated(
    http: Caller, slow: Slow, verb: str
) -> None:
    slow.set()
    await http.put("/v1/schedules/leap", SCHEDULE)
    [head] = (await http.get("/v1/events"))["events"]
    slow.clear()
    slow.begun.clear()
    address = f"/v1/events/{head['id']}/cancel" if verb == "cancel" else f"/v1/schedules/leap/{verb}"
    asking = asyncio.create_task(http("POST", address, {}))
    async with asyncio.timeout(60):
        while not slow.begun.is_set():  # noqa: ASYNC110 - a thread cannot tell of it
            await asyncio.sleep(0.01)
    for _ in range(5):
        assert (await http("GET", "/healthz")).status_code == 200
    assert not asking.done()
    slow.set()
    assert (await asking).status_code == 200


async def test_other_requests_are_answered_while_a_backfill_is_evaluated(http: Caller, slow: Slow) -> None:
    slow.set()
    await http.put("/v1/schedules/leap", SCHEDULE)
    slow.clear()
    slow.begun.clear()
    past = {"from": "1990-01-01T00:00:00Z", "to": "2000-01-01T00:00:00Z"}
    asking = asyncio.create_task(http("POST", "/v1/schedules/leap/backfill", past))
    async with asyncio.timeout(60):
        while not slow.begun.is_set():  # noqa: ASYNC110 - a thread cannot tell of it
            await asyncio.sleep(0.01)
    for _ in range(5):
        assert (await http("GET", "/healthz")).status_code == 200
    assert not asking.done()
    slow.set()
    assert len((await asking).json()["events"]) == 2


async def test_a_preview_that_takes_too_long_has_fewer_and_says_so(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await http.put("/v1/schedules/leap", SCHEDULE)
    monkeypatch.setattr(preview_places, "PREVIEW_BUDGET_S", 0.0)
    first = await http.post("/v1/schedules/preview", LEAP_DAYS)
    assert (len(first["occurrences"]), first["complete"]) == (1, False)
    then = await http.post("/v1/schedules/preview", {**LEAP_DAYS, "after": first["occurrences"][-1]["due_at"]})
    assert then["occurrences"][0]["due_at"] == "2032-02-29T00:00:00Z"
    one = await http.post("/v1/schedules/preview", {**LEAP_DAYS, "count": 1})
    assert (len(one["occurrences"]), one["complete"]) == (1, True)
    stored = await http.get("/v1/schedules/leap/preview?count=5")
    assert (len(stored["occurrences"]), stored["complete"]) == (2, False)


async def test_too_many_previews_at_once_are_told_to_come_again(
    http: Caller, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_places, "PLACE_TIMEOUT_S", 0.01)
    asking = asyncio.create_task(http("POST", "/v1/schedules/preview", LEAP_DAYS))
    while not slow.begun.is_set():  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)
    refused = await http("POST", "/v1/schedules/preview", LEAP_DAYS)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "try again" in refused.json()["detail"]
    slow.set()
    assert (await asking).status_code == 200


async def test_a_tenant_s_many_previews_leave_a_place_to_another(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    flooding, quiet = [await http.app.keys.create("a", tenant=tenant) for tenant in ("flooding", "quiet")]
    slow = Slow()

    def slowly(table: Timetable, *given: Any) -> Any:
        if not isinstance(table.rule, Every):
            slow.begun.set()
            assert slow.wait(60), "nobody else was answered meanwhile"
        return preview(table, *given)

    monkeypatch.setattr(schedules, "preview", slowly)
    of_flooding = {"authorization": f"Bearer {flooding.secret}"}
    asking = [asyncio.create_task(http("POST", "/v1/schedules/preview", LEAP_DAYS, **of_flooding)) for _ in range(9)]
    while not slow.begun.is_set():  # noqa: ASYNC110 - a thread cannot tell of it
        await asyncio.sleep(0.01)
    every = {"rule": {"every": "1h"}, "count": 1}
    answer = await http.post("/v1/schedules/preview", every, authorization=f"Bearer {quiet.secret}")
    assert len(answer["occurrences"]) == 1
    assert not any(one.done() for one in asking)
    slow.set()
    assert {answer.status_code for answer in await asyncio.gather(*asking)} == {200}


@pytest.fixture
async def turns() -> AsyncIterator[Callable[[], int]]:
    """How often others could have had theirs so far."""
    many = 0

    async def count() -> None:
        nonlocal many
        while True:
            await asyncio.sleep(0)
            many += 1

    counting = asyncio.create_task(count())
    yield lambda: many
    counting.cancel()


def noted(monkeypatch: pytest.MonkeyPatch, where: str, turns: Callable[[], int]) -> set[int]:
    """In which turns a function is called from now on."""
    seen: set[int] = set()
    act = resolve_name(where)

    def noting(*given: Any, **more: Any) -> Any:
        seen.add(turns())
        return act(*given, **more)

    monkeypatch.setattr(where, noting)
    return seen


async def test_other_requests_are_answered_while_many_timers_are_checked(
    http: Caller, turns: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = noted(monkeypatch, "duly.api.nouns.timers.read_timer", turns)
    many = [{"type": "x", "after": "1h", "payload": {"number": number}} for number in range(3000)]
    many[1700] = {"type": "x"}
    told = (await http("POST", "/v1/timers", {"timers": many})).json()
    assert len(checked) == len(many) // timers.TIMERS_PER_SLICE
    assert (told["created"], told["refused"]) == (2999, 1)
    assert [place for place, one in enumerate(told["results"]) if one["status"] == "refused"] == [1700]


async def test_other_requests_are_answered_while_a_page_is_written(
    http: Caller, turns: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await http.put(f"/v1/timers/{number}", {"type": "x", "after": "1h"})
    shown = noted(monkeypatch, "duly.api.nouns.events.EVENT_JSON.write", turns)
    monkeypatch.setattr(rule_threads, "SLICE_S", 0.0)
    assert len((await http.get("/v1/events"))["events"]) == len(shown) == 5


@pytest.mark.parametrize(("least", "many"), [(1, 4), (1000, 2), (listing.PIECE_BYTES, 1)], ids=str)
async def test_a_page_is_the_same_in_however_many_pieces_it_is_sent(
    http: Caller, turns: Callable[[], int], monkeypatch: pytest.MonkeyPatch, least: int, many: int
) -> None:
    monkeypatch.setattr(listing, "PIECE_BYTES", least)
    sent: dict[int, bytes] = {}

    async def send(message: Any) -> None:
        if message.get("more_body"):
            sent[turns()] = message["body"]

    for number in range(5):
        await http.put(f"/v1/timers/{number}", {"type": "x", "after": "1h"})
    answer = await http("GET", "/v1/events?limit=3")
    page = answer.json()
    assert [event["key"] for event in page["events"]] == ["4", "3", "2"]
    assert int(answer.headers["content-length"]) == len(answer.content)
    beside = {name: page[name] for name in page if name != "events"}
    listed = listing.Listed("events", page["events"], lambda event: event, beside)
    pieces = await listed.written()
    await listing.InPieces(pieces, 200, {})({"type": "http"}, nobody_asks, send)
    assert len(sent) == len(pieces) == many, "each in a turn of its own"
    assert json.loads(b"".join(sent.values())) == page


async def nobody_asks() -> Any:
    raise AssertionError


# -- the depth of bodies


def body(payload: bytes) -> bytes:
    return b'{"type": "x", "after": "1h", "payload": ' + payload + b"}"


@pytest.mark.parametrize("breath", [1, 7, 16 * 1024], ids=str)
@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (b"[" * MOST_LEVELS + b"]" * MOST_LEVELS, 400),
        (b'{"a":' * MOST_LEVELS + b"1" + b"}" * MOST_LEVELS, 400),
        (b"[" + b"[],{}," * 500 + b"[]]", 201),
        (b'["' + b"[" * 500 + b'"]', 201),
        (b'["\\"' + b"[" * 500 + b'"]', 201),
        (b'["\\\\\\"' + b"{" * 500 + b'\\\\"]', 201),
        (b'["\\\\", ' + b"[" * MOST_LEVELS + b"]" * MOST_LEVELS + b"]", 400),
        (b'["a\\\\\\\\", ' + b"[" * MOST_LEVELS + b'"' + b"]" * 500 + b'"' + b"]" * MOST_LEVELS + b"]", 400),
    ],
)
async def test_the_depth_of_a_body_is_counted_as_json_nests(
    http: Caller, payload: bytes, status: int, breath: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "SLICE_BYTES", breath)
    answer = await http("PUT", "/v1/timers/a", body(payload), content_type="application/json")
    assert answer.status_code == status, answer.text
    if status == 201:
        assert answer.json()["payload"] == json.loads(payload)
    else:
        assert "levels deep" in answer.json()["detail"]


async def test_other_requests_are_answered_while_a_body_is_checked(
    http: Caller, turns: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = noted(monkeypatch, "duly.api.protocol.bodies.accumulate", turns)
    large = body(b"[" + b"[]," * 300_000 + b"[]]")
    answer = await http("PUT", "/v1/timers/a", large, content_type="application/json")
    assert len(looked) == math.ceil(len(large) / bodies.SLICE_BYTES)
    assert answer.status_code == 201


@pytest.mark.parametrize("values", [b"[],", b"0,"], ids=["containers", "numbers"])
async def test_a_body_with_too_many_values_is_refused(http: Caller, values: bytes) -> None:
    many = b'{"timers": [' + values * 1_000_000 + b"0]}"
    answer = await http("POST", "/v1/timers", many, content_type="application/json")
    assert answer.status_code == 413
    assert "1,000,000 values" in answer.json()["detail"]
