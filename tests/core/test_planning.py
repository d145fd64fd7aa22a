from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.model import Event, Timer
from duly.core.planning import Succession, head_of, plan, rule_of, succeed
from duly.core.retry import Retry
from duly.core.rules import Occurrence, Rule, every, instant_name, once
from duly.errors import Invalid
from duly.flow.ids import new_id, new_ids
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, START, make_event, make_schedule


def occurrence(due: datetime) -> Occurrence:
    return Occurrence(instant_name(due), due)


def make_head(due: datetime = START) -> Event:
    return make_event(due=due, head=True, series="schedule:s", occurrence=instant_name(due))


HOURLY = every("1h", start=START)


# -- what a claimed head fires as, and what follows it


@pytest.mark.parametrize("late", [timedelta(), MICROSECOND, MINUTE, HOUR - MICROSECOND])
def test_a_tick_on_time_fires_as_itself(late: timedelta) -> None:
    succession = succeed(make_head(), HOURLY, START + late)
    assert succession == Succession(occurrence(START), 1, occurrence(START + HOUR))


@pytest.mark.parametrize(
    ("late", "fires", "stands_for"),
    [(HOUR, HOUR, 2), (2 * HOUR - MICROSECOND, HOUR, 2), (2 * HOUR, 2 * HOUR, 3), (DAY + MINUTE, DAY, 25)],
)
def test_of_those_missed_only_the_latest_fires_and_stands_for_all(
    late: timedelta, fires: timedelta, stands_for: int
) -> None:
    succession = succeed(make_head(), HOURLY, START + late)
    assert succession == Succession(occurrence(START + fires), stands_for, occurrence(START + fires + HOUR))


@given(
    interval=st.timedeltas(timedelta(seconds=1), 30 * DAY),
    steps=st.integers(0, 200),
    off=st.floats(0, 1, exclude_max=True),
)
def test_what_follows_is_never_due_already_and_nothing_is_forgotten(
    interval: timedelta, steps: int, off: float
) -> None:
    rule = every(interval, start=START)
    now = START + steps * interval + min(off * interval, interval - MICROSECOND)
    fires, stands_for, following = succeed(make_head(), rule, now)
    assert fires.due <= now
    assert following is not None
    assert following.due > now
    assert following.due == fires.due + interval
    assert stands_for == steps + 1


def test_the_last_occurrence_has_no_successor() -> None:
    assert succeed(make_head(), once(START), START + DAY) == Succession(occurrence(START), 1, None)


def test_a_head_that_was_moved_fires_as_itself_and_the_rule_goes_on() -> None:
    moved = make_event(due=START + 10 * MINUTE, head=True, occurrence=instant_name(START))
    succession = succeed(moved, HOURLY, START + 10 * MINUTE)
    assert succession == Succession(Occurrence(instant_name(START), START + 10 * MINUTE), 1, occurrence(START + HOUR))


# -- making events


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
        "series": None,
        "occurrence": None,
        "head": False,
    }


def test_a_delay_is_left_for_the_store_to_add() -> None:
    event = planned(Timer(HOUR, "greet"))
    assert (event["due"], event["delay"], event["lane"], event["payload_json"]) == (None, HOUR, "handler:greet", "null")


def test_one_bad_timer_refuses_them_all_and_says_where() -> None:
    timers = [Timer(START, "fine"), Timer(START, ""), Timer(None, "greet", object())]  # type: ignore[arg-type]
    with pytest.raises(Invalid) as refused:
        plan(timers, (), new_ids)
    assert [problem.path for problem in refused.value.problems] == ["[1].type", "[2].due", "[2].payload"]


def test_what_is_wrong_with_one_timer_is_found_beside_others_of_its_kind() -> None:
    fine, other = {"due": START, "type": "greet"}, Retry(max_attempts=0)
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
        Timer(START, "greet", 1, target={"webhook": "a"}),
        Timer(HOUR, "greet", 2, target={"webhook": "a"}, key="k"),
        Timer(START, "greet", 3, target={"nats": "a"}, correlation_id="c"),
        Timer(START, "greet", 4, retry=Retry(max_attempts=9)),
        Timer(START, "greet", 5, retry=Retry()),
    ]
    events = plan(timers, ("webhook", "nats"), new_ids)
    assert [event.lane for event in events] == ["webhook", "webhook", "nats", "handler:greet", "handler:greet"]
    assert [event.target_json for event in events] == ['{"webhook":"a"}', '{"webhook":"a"}', '{"nats":"a"}', None, None]
    assert [event.payload_json for event in events] == ["1", "2", "3", "4", "5"]
    assert [(event.due, event.delay) for event in events] == [(START, None), (None, HOUR), *[(START, None)] * 3]
    assert [(event.key, event.correlation_id) for event in events][:3] == [(None, None), ("k", None), (None, "c")]
    assert [event.retry_json is None for event in events] == [True, True, True, False, True]


def test_the_head_of_a_schedule_carries_what_the_schedule_says() -> None:
    schedule = make_schedule(payload={"n": 1}, target_json='{"webhook":"x"}', retry_json='{"base":"1s"}', tenant="acme")
    head = head_of(schedule, occurrence(START), lambda: "the id")
    assert (head.id, head.tenant, head.type, head.lane, head.due) == ("the id", "acme", "greet", "webhook", START)
    assert (head.payload_json, head.target_json, head.retry_json) == ('{"n":1}', '{"webhook":"x"}', '{"base":"1s"}')
    assert (head.series, head.occurrence, head.head) == (f"schedule:{schedule.id}", instant_name(START), True)
    assert head_of(make_schedule(), occurrence(START), new_id).lane == "handler:greet"


@pytest.mark.parametrize("rule", [every("1h", start=START), once(START)])
def test_a_schedule_keeps_its_rule(rule: Rule) -> None:
    assert rule_of(make_schedule(rule=rule)) == rule
