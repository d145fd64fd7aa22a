"""What holds for every kind of rule."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import Invalid
from duly.rules.notation import cron, every, once, parse_rule, rrule, template, yearly
from duly.rules.recurrence import Dst, Occurrence, Rule
from duly.rules.templates import TEMPLATES
from tests.make import DAY, HOUR, START

zones = st.sampled_from(
    ["UTC", "Europe/Brussels", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns"]
)
dst = st.builds(
    Dst,
    st.none() | st.sampled_from(["after", "shift", "skip"]),
    st.none() | st.sampled_from(["first", "second", "both"]),
)
instants = st.datetimes(datetime(2015, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
walls = st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(microsecond=0))  # noqa: DTZ001
months_and_days = st.dates(datetime(2000, 1, 1).date(), datetime(2000, 12, 31).date()).map(lambda d: f"{d:%m-%d}")  # noqa: DTZ001

written_rules = st.one_of(
    st.builds(
        lambda span: {"every": span, "start": "2015-01-01T00:00:00Z"}, st.sampled_from(["1s", "7m", "90m", "3d"])
    ),
    st.builds(
        lambda text: {"cron": text},
        st.sampled_from(["* * * * *", "*/7 1-3 * * *", "30 2 * * *", "0 0 L * *", "15 30 1 ? * 5L", "0 9 13W 2,6 *"]),
    ),
    st.builds(
        lambda day, at, leap: {"yearly": day, "at": at.isoformat(), "leap": leap},
        months_and_days,
        st.times().map(lambda at: at.replace(microsecond=0)),
        st.sampled_from(["feb28", "mar1", "skip"]),
    ),
    st.builds(
        lambda text, start: {
            "rrule": text,
            "start": start.isoformat(),
            "exdate": ["2026-12-24", "2020-02-02T02:02:02"],
        },
        st.sampled_from(
            [
                "FREQ=DAILY",
                "FREQ=HOURLY;INTERVAL=5",
                "FREQ=MONTHLY;BYDAY=-1FR",
                "FREQ=WEEKLY;BYDAY=SU;BYHOUR=2;BYMINUTE=30",
            ]
        ),
        walls,
    ),
    st.builds(
        lambda text, start: {"rrule": text, "start": start.isoformat(), "named": "date"},
        st.sampled_from(["FREQ=DAILY", "FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYSETPOS=-1"]),
        walls,
    ),
    st.builds(lambda day, since: {"yearly": day, "since": since}, months_and_days, st.integers(2016, 2035)),
    st.builds(lambda at: {"at": at.isoformat()}, walls),
    st.builds(lambda at: {"at": at.isoformat(), "named": "date"}, walls),
)
rules = st.builds(parse_rule, written_rules, zones, dst)


def walk(rule: Rule, start: datetime, many: int) -> list[Occurrence]:
    found, at = list[Occurrence](), start
    while len(found) < many and (occurrence := rule.after(at)) is not None:
        found.append(occurrence)
        at = occurrence.at
    return found


@given(rules, instants)
def test_occurrences_of_any_rule_strictly_increase_and_each_has_its_own_name(rule: Rule, start: datetime) -> None:
    found = walk(rule, start, 12)
    assert all(occurrence.at > start for occurrence in found)
    assert all(one.at < other.at for one, other in pairwise(found))
    assert len({one.name for one in found}) == len(found)


@given(rules, instants, st.integers(0, 10), st.sampled_from([timedelta(), timedelta(microseconds=1), HOUR]))
def test_the_next_occurrence_of_any_rule_is_the_first_later_one_of_the_enumeration(
    rule: Rule, start: datetime, index: int, off: timedelta
) -> None:
    found = walk(rule, start, 12)
    if len(found) > index:
        instant = found[index].at - off
        later = [one for one in found if one.at > instant]
        if instant >= start and later:
            assert rule.after(instant) == later[0]


@given(rules, instants)
def test_last_and_count_of_any_rule_agree_with_the_enumeration(rule: Rule, start: datetime) -> None:
    found = walk(rule, start, 12)
    for occurrence in found:
        assert rule.last(occurrence.at) == occurrence
        assert rule.last(occurrence.at + timedelta(microseconds=1)) == occurrence
    if found:
        assert rule.count(found[0].at, found[-1].at) == len(found)
        assert rule.count(found[-1].at, found[0].at - timedelta(microseconds=1)) == 0


@given(written_rules, zones, dst)
def test_a_rule_survives_a_round_trip_through_json_and_text(written: dict[str, Any], zone: str, dst: Dst) -> None:
    rule = parse_rule(written, zone, dst)
    text = msgspec.json.encode(rule.to_json())
    again = parse_rule(msgspec.json.decode(text), zone, dst)
    assert again == rule
    assert again.same_as(rule)
    assert msgspec.json.encode(again.to_json()) == text


@given(rules, instants)
def test_the_same_zone_data_puts_an_occurrence_where_it_was(rule: Rule, start: datetime) -> None:
    for occurrence in walk(rule, start, 4):
        assert rule.anew(occurrence) == occurrence


@given(rules, zones)
def test_a_rule_in_another_zone_is_another_rule(rule: Rule, zone: str) -> None:
    moved = rule.placed(zone, Dst())
    assert moved.timezone == zone
    assert moved.to_json() == rule.to_json()
    assert rule.local is moved.local


# -- single kinds


def test_an_open_recurrence_begins_when_it_is_anchored() -> None:
    rule = rrule("FREQ=DAILY", timezone="Asia/Tokyo")
    with pytest.raises(ValueError, match="give it a start first"):
        rule.after(START)
    anchored = rule.anchored(START)
    assert anchored.to_json() == {"rrule": "FREQ=DAILY", "start": "2026-01-01T09:00:00"}
    assert anchored.anchored(START + DAY) == anchored
    assert rule.same_as(anchored)
    assert anchored.same_as(rule)
    assert not anchored.same_as(rrule("FREQ=WEEKLY", timezone="Asia/Tokyo"))
    assert not anchored.same_as(cron("@daily"))


def test_a_start_with_a_zone_of_its_own_is_read_on_the_wall_of_the_rule() -> None:
    aware = rrule("FREQ=DAILY", start=datetime(2026, 1, 1, tzinfo=UTC))
    assert aware.placed("Asia/Tokyo", Dst()).to_json()["start"] == "2026-01-01T09:00:00"
    new_york = ";TZID=America/New_York:202601"
    text = f"DTSTART{new_york}01T090000\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE{new_york}02T090000"
    lines = rrule(text)
    assert lines.timezone == "America/New_York"
    assert [occurrence.at for occurrence in walk(lines, START, 9)] == [
        datetime(2026, 1, day, 14, tzinfo=UTC) for day in (1, 3)
    ]
    with pytest.raises(Invalid, match="TZID=America/New_York is not the timezone, Asia/Tokyo"):
        rrule(text, timezone="Asia/Tokyo")


def test_a_local_time_happens_once() -> None:
    rule = once(datetime(2026, 3, 29, 2, 30), timezone="Europe/Brussels")  # noqa: DTZ001 - on the wall, in a gap
    occurrence = rule.after(START)
    assert occurrence is not None
    assert occurrence.at == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert rule.after(occurrence.at) is None


def test_a_yearly_date_is_named_by_its_date_alone() -> None:
    nine, ten = (yearly("02-29", at=at, leap=leap) for at, leap in (("09:00", "feb28"), (time(10), "mar1")))
    one, other = nine.after(START), ten.after(START)
    assert one is not None
    assert other is not None
    assert one.name == other.name == "2026-02-29"
    assert (one.at.day, other.at.day) == (28, 1)


def test_fixed_times_are_named_by_the_wall_and_others_by_their_instant() -> None:
    nine = [cron("0 9 * * *", timezone=zone).after(START) for zone in ("Asia/Tokyo", "America/New_York")]
    assert [occurrence and occurrence.name for occurrence in nine] == ["2026-01-02T09:00:00", "2026-01-01T09:00:00"]
    hourly = [cron("0 * * * *", timezone=zone).after(START) for zone in ("Asia/Tokyo", "America/New_York")]
    assert hourly[0] == hourly[1]


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_every_template_is_a_rule(name: str) -> None:
    assert template(name, timezone="Asia/Tokyo") == cron(TEMPLATES[name].cron, timezone="Asia/Tokyo")
    assert parse_rule({"template": name}).to_json() == {"cron": TEMPLATES[name].cron}
    assert TEMPLATES[name].meaning


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({"cron": None}, "rule.cron"),
        ({"cron": "* * * * *", "start": "2026-01-01T00:00:00Z"}, "rule.start"),
        ({"template": "sometimes"}, "rule.template"),
        ({"template": ["hourly"]}, "rule.template"),
        ({"yearly": "13-01"}, "rule.yearly"),
        ({"yearly": "02-30"}, "rule.yearly"),
        ({"yearly": 229}, "rule.yearly"),
        ({"yearly": "02-29", "at": "25:00"}, "rule.at"),
        ({"yearly": "02-29", "at": "09:00+01:00"}, "rule.at"),
        ({"yearly": "02-29", "at": 9}, "rule.at"),
        ({"yearly": "02-29", "leap": "never"}, "rule.leap"),
        ({"rrule": 7}, "rule.rrule"),
        ({"rrule": "FREQ=SOMETIMES"}, "rule.rrule"),
        ({"rrule": "FREQ=DAILY;INTERVAL=0"}, "rule.rrule"),
        ({"rrule": "FREQ=DAILY", "start": "tomorrow"}, "rule.start"),
        ({"rrule": "FREQ=DAILY", "start": "0999-01-01T00:00:00"}, "rule.start"),
        ({"rrule": "FREQ=DAILY", "exdate": "2026-12-24"}, "rule.exdate"),
        ({"rrule": "FREQ=DAILY", "exdate": ["soon"]}, "rule.exdate"),
        ({"rrule": "DTSTART;TZID=Mars/Base:20260101T000000\nRRULE:FREQ=DAILY"}, "rule.rrule"),
        ({"at": "2026-01-01T00:00:00.5", "timezone": "UTC"}, "rule.timezone"),
        ({"at": "0999-01-01T00:00:00"}, "rule.at"),
    ],
)
def test_a_bad_rule_is_refused_with_the_field(written: Any, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_rule(written, "Europe/Brussels")
    [problem] = refused.value.problems
    assert problem.path == path
    assert problem.message


def test_an_interval_needs_no_zone_and_an_unknown_one_is_refused() -> None:
    assert every("1h", start=START).timezone is None
    with pytest.raises(Invalid, match="timezone: 'Mars/Base' is not a time zone"):
        parse_rule({"every": "1h"}, "Mars/Base")
    with pytest.raises(Invalid, match=r"dst.gap: must be one of after, shift, skip"):
        cron("@daily", gap="mind")
