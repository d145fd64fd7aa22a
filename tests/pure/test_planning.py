from typing import Any

import pytest

from duly.decide.planning import plan
from duly.decide.retry import Retry
from duly.errors import Invalid
from duly.ids import new_ids
from duly.records.event import Timer
from duly.stores.columns.lists import OF_SUCCESSORS
from tests.make import HOUR, START


def planned(timer: Timer, channels: tuple[str, ...] = ()) -> dict[str, object]:
    [event] = plan((timer,), channels, lambda _: ["the id"])
    return {name: getattr(event, name) for name in event.__struct_fields__}


def test_a_timer_becomes_an_event() -> None:
    timer = Timer(
        START.astimezone().replace(microsecond=7),
        "invoice.overdue",
        {"invoice": 7},
        key="invoice-7",
        tenant="acme",
        target={"webhook": "https://hooks.example"},
        retry=Retry(max_attempts=9),
        correlation_id="c1",
    )
    assert planned(timer, channels=("webhook",)) == {
        "id": "the id",
        "tenant": "acme",
        "type": "invoice.overdue",
        "lane": "webhook",
        "due": START.replace(microsecond=7),
        "delay": None,
        "payload_json": '{"invoice":7}',
        "key": "invoice-7",
        "target_json": '{"webhook":"https://hooks.example"}',
        "retry_json": '{"max_attempts":9,"base":"30s","factor":4.0,"max":"1h"}',
        "correlation_id": "c1",
        "destination": "https://hooks.example",
        "series": None,
        "occurrence": None,
        "head": False,
        "scheduled": None,
        "timezone": None,
        "zone_data": None,
        "asked": None,
        "via": None,
        "expires": None,
        "once": True,
        "quiet": None,
        "max_wait": None,
        "held": None,
        "hold_kind": None,
        "gated": False,
        "rule_json": None,
        "owner": None,
        **dict.fromkeys(OF_SUCCESSORS),
    }


def test_a_delay_is_left_for_the_store_to_add() -> None:
    event = planned(Timer(HOUR, "greet"))
    assert (event["due"], event["delay"], event["lane"], event["payload_json"]) == (None, HOUR, "handler:greet", "null")


def test_one_bad_timer_refuses_them_all_and_says_where() -> None:
    timers = [Timer(START, "fine"), Timer(START, ""), Timer(None, "greet", object())]
    with pytest.raises(Invalid) as refused:
        plan(timers, (), new_ids)
    assert [problem.path for problem in refused.value.problems] == ["[1].type", "[2].due", "[2].payload"]


def test_what_is_wrong_with_one_timer_is_found_beside_others_of_its_kind() -> None:
    fine: dict[str, Any] = {"due": START, "type": "greet"}
    other = Retry(max_attempts=0)
    wrong: list[dict[str, Any]] = [
        {"due": None},
        {"payload": {1}},
        {"key": " k"},
        {"correlation_id": ""},
        {"tenant": "a\n"},
        {"type": 7},
        {"type": ["greet"]},
        {"target": {"pigeon": "post"}},
        {"retry": other},
    ]
    timers = [timer for one in wrong for timer in (Timer(**fine), Timer(**(fine | one)))]
    with pytest.raises(Invalid) as refused:
        plan(timers, (), new_ids)
    assert [problem.path for problem in refused.value.problems] == [
        f"[{2 * n + 1}].{'retry.max_attempts' if field == 'retry' else field}"
        for n, one in enumerate(wrong)
        for field in one
    ]


def test_timers_of_one_kind_share_nothing_else() -> None:
    timers = [
        Timer(START, "greet", 1, target={"webhook": "https://a"}),
        Timer(HOUR, "greet", 2, target={"webhook": "https://a"}, key="k"),
        Timer(START, "greet", 3, target={"nats": "a"}, correlation_id="c"),
        Timer(START, "greet", 4, retry=Retry(max_attempts=9)),
        Timer(START, "greet", 5, retry=Retry()),
    ]
    events = plan(timers, ("webhook", "nats"), new_ids)
    assert [event.lane for event in events] == ["webhook", "webhook", "nats", "handler:greet", "handler:greet"]
    webhook = '{"webhook":"https://a"}'
    assert [event.target_json for event in events] == [webhook, webhook, '{"nats":"a"}', None, None]
    assert [event.destination for event in events] == ["https://a", "https://a", None, None, None]
    assert [event.payload_json for event in events] == ["1", "2", "3", "4", "5"]
    assert [(event.due, event.delay) for event in events] == [(START, None), (None, HOUR), *[(START, None)] * 3]
    assert [(event.key, event.correlation_id) for event in events][:3] == [(None, None), ("k", None), (None, "c")]
    assert [event.retry_json is None for event in events] == [True, True, True, False, True]
