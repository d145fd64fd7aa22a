"""What a schedule goes by that was edited, against its rules tried one by one."""

from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.decide.series.edits import superseded
from duly.records.schedule import Schedule
from duly.rules.notation import cron, every, once, rrule, yearly
from duly.rules.policies import policies_text, read_policies
from duly.rules.recurrence import Occurrence, Rule
from duly.rules.timetable import Edited, Superseded, Timetable, read_earlier
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, START, make_schedule

ZONES = st.sampled_from(["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "Pacific/Honolulu"])
RULES = st.one_of(
    st.sampled_from([90, 600, 1440]).map(lambda minutes: every(timedelta(minutes=minutes), start=START)),
    st.builds(
        lambda written, zone: cron(written, timezone=zone),
        st.sampled_from(["0 9 * * *", "0 9,12,15 * * *", "30 * * * *", "0 0 * * *", "0 18 * * FRI"]),
        ZONES,
    ),
    st.builds(lambda hour, zone: yearly("01-02", at=f"{hour:02}:00", timezone=zone), st.integers(0, 23), ZONES),
    st.builds(
        lambda hour, zone: rrule(f"FREQ=DAILY;BYHOUR={hour};BYMINUTE=0;BYSECOND=0", start=datetime(2025, 12, 1, 9),  # noqa: DTZ001 - on the wall
                                 timezone=zone, by_date=True),
        st.integers(0, 23), ZONES,
    ),
    st.integers(-5, 100).map(lambda hours: once(START + hours * HOUR)),
)  # fmt: skip


def edited_to(schedule: Schedule, rule: Rule, now: datetime, **policies: object) -> Schedule:
    zone = rule.timezone or "UTC"
    anew = make_schedule(rule=rule, timezone=zone, policies_json=policies_text(read_policies(policies, zone)))
    return Schedule(**{**{f: getattr(anew, f) for f in anew.__struct_fields__}, "id": schedule.id,
                       "earlier_json": superseded(schedule, None, now), "created": START})  # fmt: skip


def plain(schedule: Schedule) -> Timetable:
    return Timetable(schedule.timetable.rule, schedule.policies)


def one_by_one(steps: list[tuple[Timetable, datetime, datetime]]) -> list[Occurrence]:
    """What each rule names while it is in force, but for names that were there before."""
    found: list[Occurrence] = []
    names: set[str] = set()
    for table, since, until in steps:
        following = table.after(since)
        while following is not None and following.at <= until:
            if following.name not in names:
                found.append(following)
            names.add(following.name)
            following = table.after(following.at)
    return found


@settings(max_examples=200, deadline=None)
@given(edits=st.lists(st.tuples(RULES, st.integers(1, 3000)), min_size=2, max_size=5), look=st.integers(0, 200))
def test_an_edited_timetable_names_what_each_rule_named_while_it_was_in_force(
    edits: list[tuple[Rule, int]], look: int
) -> None:
    now, schedule = START, make_schedule(rule=edits[0][0], timezone=edits[0][0].timezone or "UTC", created=START)
    steps: list[tuple[Timetable, datetime, datetime]] = []
    for (_, minutes), (rule, _) in pairwise(edits):
        since, now = now, now + minutes * MINUTE
        steps.append((plain(schedule), since, now))
        schedule = edited_to(schedule, rule, now)
    end = now + 5 * DAY
    steps.append((plain(schedule), now, end))
    table, wanted = schedule.timetable, one_by_one(steps)
    assert isinstance(table, Edited)
    found, following = [], table.after(START)
    while following is not None and following.at <= end:
        found.append(following)
        following = table.after(following.at)
    assert found == wanted
    middle = min(START + look * HOUR, end)
    assert table.count(START + MICROSECOND, middle) == sum(one.at <= middle for one in wanted)
    last = table.last(middle)
    assert (last if last is not None and last.at > START else None) == next(
        (one for one in reversed(wanted) if one.at <= middle), None
    )


def test_an_occurrence_keeps_the_jitter_of_its_time() -> None:
    schedule = make_schedule(rule=every("1h", start=START), policies_json='{"jitter":"10m"}', created=START)
    edited = edited_to(schedule, every("1h", start=START), START + 2 * HOUR, jitter="1m")
    table = edited.timetable
    assert [table.jitter(START + hour * HOUR) for hour in (1, 2, 3)] == [10 * MINUTE, 10 * MINUTE, MINUTE]
    assert table.longest_jitter == 10 * MINUTE


def test_two_hundred_edits_within_a_week_are_evaluated_once_and_not_each_against_each() -> None:
    hours = ",".join(map(str, range(6, 19)))
    zones = ["UTC", "Asia/Tokyo", "Pacific/Honolulu"]
    now, schedule = START, make_schedule(rule=cron(f"*/5 {hours} * * *"), created=START)
    steps: list[tuple[Timetable, datetime, datetime]] = []
    for edit in range(200):
        since, now = now, now + 50 * MINUTE
        steps.append((plain(schedule), since, now))
        minutes = ",".join(str(edit % 5 + 5 * step) for step in range(12))
        earlier = [*read_earlier(schedule.earlier_json), Superseded(schedule.rule, schedule.timezone, since, now)]
        zone = zones[edit % 3]
        anew = make_schedule(rule=cron(f"{minutes} {hours} * * *", timezone=zone), timezone=zone, created=START)
        schedule = msgspec.structs.replace(anew, earlier_json=msgspec.json.encode(earlier).decode())
    end = now + 5 * DAY
    steps.append((plain(schedule), now, end))
    assert schedule.timetable.count(START + MICROSECOND, end) == len(one_by_one(steps))
