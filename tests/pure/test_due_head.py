from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.decide.series.due_head import PAUSED, Drop, Fire, HeadFacts, Hold, decide, due_of, head_of
from duly.ids import new_id
from duly.records.event import Event, HoldKind
from duly.records.history import Cause
from duly.records.series import Series
from duly.rules import zones
from duly.rules.notation import cron, every, once, yearly
from duly.rules.policies import policies_text, read_policies
from duly.rules.recurrence import Dst, Occurrence, Rule
from duly.values.instants import write_instant
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, SECOND, START, make_event, make_schedule

HOURLY = every("1h", start=START)


def occurrence(at: datetime) -> Occurrence:
    return Occurrence(write_instant(at), at)


def make_series(rule: Rule = HOURLY, **policies: Any) -> Series:
    enabled = policies.pop("enabled", True)
    text = policies_text(read_policies(policies, None))
    return make_schedule(rule=rule, policies_json=text, enabled=enabled, timezone=rule.timezone or "UTC").as_series


def make_head(due: datetime = START, **fields: Any) -> Event:
    return make_event(due=due, head=True, **({"series": "schedule:s", "occurrence": write_instant(due)} | fields))


def decided(series: Series, now: datetime, head: Event | None = None, **facts: Any) -> Any:
    return decide(head or make_head(), series, HeadFacts(now, **facts))


# -- latest, the usual policy


@pytest.mark.parametrize("late", [timedelta(), MICROSECOND, MINUTE, HOUR - MICROSECOND])
@pytest.mark.parametrize("misfire", ["latest", "all", {"policy": "skip", "tolerance": "1h"}])
def test_a_head_on_time_fires_as_itself(late: timedelta, misfire: Any) -> None:
    assert decided(make_series(misfire=misfire), START + late) == Fire(occurrence(START), 1, occurrence(START + HOUR))


@pytest.mark.parametrize(
    ("late", "fires", "stands_for"),
    [(HOUR, HOUR, 2), (2 * HOUR - MICROSECOND, HOUR, 2), (2 * HOUR, 2 * HOUR, 3), (DAY + MINUTE, DAY, 25)],
)
def test_of_missed_occurrences_only_the_latest_fires_and_stands_for_all(
    late: timedelta, fires: timedelta, stands_for: int
) -> None:
    decision = decided(make_series(), START + late)
    assert decision[:3] == (occurrence(START + fires), stands_for, occurrence(START + fires + HOUR))
    assert decision.note is not None
    assert f"stands for {stands_for}" in decision.note


@given(
    interval=st.timedeltas(timedelta(seconds=1), 30 * DAY),
    steps=st.integers(0, 200),
    off=st.floats(0, 1, exclude_max=True),
)
def test_a_successor_is_never_due_already_and_no_occurrence_is_forgotten(
    interval: timedelta, steps: int, off: float
) -> None:
    now = START + steps * interval + min(off * interval, interval - MICROSECOND)
    fire = decided(make_series(every(interval, start=START)), now)
    assert fire.occurrence.at <= now
    assert fire.next.at > now
    assert fire.next.at == fire.occurrence.at + interval
    assert fire.stands_for == steps + 1


def test_the_last_occurrence_has_no_successor() -> None:
    assert decided(make_series(once(START)), START + DAY) == Fire(occurrence(START), 1, None)


def test_a_head_that_was_moved_fires_as_itself_and_the_rule_goes_on_after_it() -> None:
    moved = make_head(START + 10 * MINUTE, occurrence=write_instant(START), scheduled=START)
    fires = decided(make_series(), START + 10 * MINUTE, moved)
    assert fires == Fire(occurrence(START), 1, occurrence(START + HOUR))
    later = make_head(START + 150 * MINUTE, occurrence=write_instant(START), scheduled=START)
    assert decided(make_series(), START + 150 * MINUTE, later) == Fire(
        occurrence(START), 1, occurrence(START + 3 * HOUR)
    ), "what it was moved past is not missed"
    earlier = make_head(START - 30 * MINUTE, occurrence=write_instant(START), scheduled=START)
    assert decided(make_series(), START - 30 * MINUTE, earlier) == Fire(
        occurrence(START), 1, occurrence(START + HOUR)
    ), "and what it was moved before is not fired again"


# -- all and skip


def test_the_policy_all_fires_each_missed_occurrence_oldest_first() -> None:
    series, head, fired = make_series(misfire="all"), make_head(), []
    now = START + 5 * HOUR
    while True:
        decision = decided(series, now, head)
        assert isinstance(decision, Fire)
        fired.append((decision.occurrence.at, decision.stands_for))
        assert decision.next is not None
        if decision.next.at > now:
            break
        head = make_head(decision.next.at)
    assert fired == [(START + n * HOUR, 1) for n in range(6)]


def test_the_policy_all_drops_the_oldest_beyond_its_limit() -> None:
    series = make_series(misfire={"policy": "all", "limit": 3})
    decision = decided(series, START + 9 * HOUR)
    assert isinstance(decision, Drop)
    assert (decision.stands_for, decision.next) == (7, occurrence(START + 7 * HOUR))
    assert decision.last == START + 6 * HOUR
    assert decided(series, START + 9 * HOUR, make_head(START + 7 * HOUR)) == Fire(
        occurrence(START + 7 * HOUR), 1, occurrence(START + 8 * HOUR)
    )


@pytest.mark.parametrize("late", [timedelta(), 29 * SECOND, 30 * SECOND])
def test_the_policy_skip_fires_what_is_within_its_tolerance(late: timedelta) -> None:
    fires = decided(make_series(misfire="skip"), START + late)
    assert fires == Fire(occurrence(START), 1, occurrence(START + HOUR))


def test_the_policy_skip_drops_late_occurrences_and_goes_on_with_the_first_on_time() -> None:
    minutely = every("1m", start=START)
    decision = decided(make_series(minutely, misfire="skip"), START + 5 * MINUTE + 31 * SECOND)
    assert (type(decision), decision.stands_for, decision.next) == (Drop, 6, occurrence(START + 6 * MINUTE))
    decision = decided(make_series(minutely, misfire="skip"), START + 5 * MINUTE + 30 * SECOND)
    assert (decision.stands_for, decision.next) == (5, occurrence(START + 5 * MINUTE)), "that one is not too late"
    assert "5 occurrences were more than 30s late" in decision.reason
    assert decision.last == START + 4 * MINUTE


def test_the_policy_skip_at_the_end_of_a_rule_ends_the_schedule() -> None:
    assert decided(make_series(once(START), misfire="skip"), START + HOUR) == Drop("it was more than 30s late", 1, None)


# -- what else keeps a head from firing


def test_a_paused_schedule_holds_its_head() -> None:
    assert decided(make_series(enabled=False), START + DAY) == PAUSED


@pytest.mark.parametrize("policies", [{"overlap": "queue"}, {"max_concurrent": 1}])
def test_a_head_waits_for_its_predecessor(policies: dict[str, Any]) -> None:
    series = make_series(**policies)
    assert decided(series, START, under_way=1) == Hold(HoldKind.LIMIT, "waits for its predecessor to end")
    assert isinstance(decided(series, START, under_way=0), Fire)


def test_a_head_waits_for_one_of_many() -> None:
    series = make_series(max_concurrent=3)
    assert isinstance(decided(series, START, under_way=2), Fire)
    assert decided(series, START, under_way=3) == Hold(HoldKind.LIMIT, "waits for one of 3 to end")
    assert isinstance(decided(make_series(), START, under_way=300), Fire), "usually, any number may be under way"


def test_a_head_is_left_out_while_its_predecessor_is_under_way() -> None:
    decision = decided(make_series(overlap="skip"), START, under_way=1)
    assert decision == Drop("its predecessor is still running", 1, occurrence(START + HOUR), cause=Cause.OVERLAP)


def test_a_head_fires_only_if_what_it_depends_on_has_succeeded_lately() -> None:
    series = make_series(depends_on={"schedule": "load", "within": "1h"})
    assert isinstance(decided(series, START, succeeded=START - HOUR), Fire)
    for succeeded in (None, START - HOUR - MICROSECOND):
        decision = decided(series, START, succeeded=succeeded)
        assert decision == Drop(
            "'load' has not succeeded within the 1h before", 1, occurrence(START + HOUR), cause=Cause.DEPENDENCY
        )


def test_a_shadow_fires_nothing_and_says_what_it_would_have() -> None:
    decision = decided(make_series(mode="shadow"), START + 2 * HOUR)
    assert decision == Drop(
        "shadow: it would have fired for 2026-01-01T02:00:00Z",
        3,
        occurrence(START + 3 * HOUR),
        "shadowed",
        Cause.SHADOW,
        START + 2 * HOUR,
    )


# -- bounds, rest and jitter


def test_a_schedule_ends_at_its_end_and_leaves_out_excluded_days() -> None:
    bounded = make_series(end=START + HOUR)
    assert decided(bounded, START).next == occurrence(START + HOUR)
    assert decided(bounded, START + HOUR, make_head(START + HOUR)).next is None
    resting = make_series(exclude=["2026-01-02", "SAT"])  # 2026-01-02 is a Friday
    assert decided(resting, START + 23 * HOUR, make_head(START + 23 * HOUR)).next == occurrence(START + 3 * DAY)


@given(jitter=st.timedeltas(SECOND, HOUR - SECOND), hour=st.integers(0, 10_000))
def test_jitter_is_the_same_for_an_occurrence_whoever_works_it_out(jitter: timedelta, hour: int) -> None:
    series = make_series(jitter=jitter)
    one = occurrence(START + hour * HOUR)
    assert one.at <= due_of(series, one) < one.at + jitter
    again = msgspec.structs.replace(series, payload_json='"other"')
    assert due_of(again, one) == due_of(series, one)


def test_jitter_is_the_same_as_in_earlier_releases() -> None:
    text = policies_text(read_policies({"jitter": "10m"}, None))
    schedule = make_schedule(rule=HOURLY, id="0197a000-0000-7000-8000-000000000001", policies_json=text)
    assert write_instant(due_of(schedule.as_series, occurrence(START))) == "2026-01-01T00:09:26.799337Z"


def test_jitter_spreads_occurrences_and_schedules() -> None:
    schedules = [make_series(jitter="10m") for _ in range(20)]
    spread = {due_of(series, occurrence(START + n * HOUR)) - n * HOUR for series in schedules for n in range(20)}
    assert len(spread) == 400
    assert max(spread) - min(spread) > timedelta(minutes=9)


def test_an_occurrence_whose_jitter_lies_ahead_is_not_missed() -> None:
    series = make_series(jitter="50m")
    first, second = (occurrence(START + n * HOUR) for n in (0, 1))
    head = make_head(due_of(series, first), occurrence=first.name, scheduled=first.at)
    just_before = due_of(series, second) - MICROSECOND
    assert decided(series, just_before, head) == Fire(first, 1, second)
    assert decided(series, due_of(series, second), head)[:2] == (second, 2)


# -- making heads


def test_the_head_of_a_schedule_carries_what_the_schedule_says() -> None:
    schedule = make_schedule(payload={"n": 1}, target_json='{"webhook":"x"}', retry_json='{"base":"1s"}', tenant="acme")
    head = head_of(schedule.as_series, occurrence(START), lambda: "the id")
    assert (head.id, head.tenant, head.type, head.lane, head.due) == ("the id", "acme", "greet", "webhook", START)
    assert (head.payload_json, head.target_json, head.retry_json) == ('{"n":1}', '{"webhook":"x"}', '{"base":"1s"}')
    assert (head.series, head.occurrence, head.head) == (f"schedule:{schedule.id}", write_instant(START), True)
    assert (head.scheduled, head.timezone, head.held) == (START, "UTC", None)
    assert head_of(make_series(), occurrence(START), new_id).lane == "handler:greet"


def test_a_head_of_wall_time_knows_which_zone_data_gave_its_instant() -> None:
    daily = make_series(cron("0 9 * * *", timezone="Asia/Tokyo"))
    at = datetime(2026, 1, 2, tzinfo=UTC)
    head = head_of(daily, Occurrence("2026-01-02T09:00:00", at), new_id)
    assert (head.timezone, head.zone_data) == ("Asia/Tokyo", zones.VERSION)
    assert head_of(make_series(), occurrence(START), new_id).zone_data is None, "an instant depends on none"


@pytest.mark.parametrize(
    "rule",
    [
        every("1h", start=START),
        once(START),
        cron("0 9 * * MON", timezone="Asia/Tokyo"),
        yearly("02-29", timezone="UTC"),
    ],
)
def test_a_schedule_keeps_its_rule(rule: Rule) -> None:
    assert make_series(rule).timetable.rule.to_json() == rule.to_json()
    assert make_series(rule).timetable.rule.same_as(rule.placed(rule.timezone or "UTC", getattr(rule, "dst", Dst())))
