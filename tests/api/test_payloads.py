from typing import Any

import pytest

from duly import Duly, Event, Invalid
from tests.make import START

GOOD: dict[str, Any] = {
    "nul": {"a\x00b": "\x00", "list": ["\x00"]},
    "escapes": '\\u0000 \\ " / \b\f\n\r\t',
    "unicode": {"🎂": "çáfé", "zero width": "\u200b\u2028", "private": "\ue000\U0010ffff"},
    "numbers": [0, -1, 1.5, 1e300, -1e-300, 2**53 + 1, -(2**63), 2**64, 0.1],
    "empties": [None, "", [], {}, [[]], {"": {}}],
    "booleans": [True, False, None],
    "looks like sql": "'; DROP TABLE events; --",
    "looks like a parameter": [":now", "$1", "%(x)s", "%s", "{where}", "?"],
    "looks like json": '{"a": [1, 2]}',
    "key order": {"z": 1, "a": 2, "m": 3},
    "a megabyte, nearly": "x" * 1_000_000,
    "null": None,
    "text": "just text",
}


@pytest.mark.parametrize("name", GOOD)
async def test_a_payload_comes_back_equal(app: Duly, name: str) -> None:
    payload = GOOD[name]
    received: list[Event] = []

    @app.on("greet")
    async def greet(event: Event) -> None:
        received.append(event)

    event = await app.at(START, "greet", payload, key="k")
    assert event.payload == payload
    assert (await app.events.get(event.id)).payload == payload
    assert await app.put(START, "greet", payload, key="k") == (event, "unchanged"), "the same again is the same"
    await app.tick()
    assert [event.payload for event in received] == [payload]
    if isinstance(payload, dict):
        assert list(received[0].payload) == list(payload)


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


BAD: dict[str, Any] = {
    "half of a surrogate pair": "\ud800",
    "101 levels": nested(101),
    "1,000 levels": nested(1000),
    "10 MB": "x" * 10_000_000,
    "NaN": {"a": float("nan")},
    "infinity": [float("inf")],
    "an object": object(),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_payload_that_no_store_can_carry_is_refused_and_its_neighbours_are_not(app: Duly, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        await app.at(START, "greet", BAD[name], key="k")
    [problem] = refused.value.problems
    assert problem.path == "payload"
    assert len(problem.message) < 200
    fine = await app.at(START, "greet", "fine", key="k")
    assert await app.events.find() == [fine]


async def test_a_payload_of_a_hundred_levels_comes_back(app: Duly) -> None:
    event = await app.at(START, "greet", nested(100))
    assert (await app.events.get(event.id)).payload == nested(100)
