from bisect import bisect_left
from calendar import isleap
from contextlib import suppress
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime, timezone
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duly.rules import rrule
from duly.rules.rrule import MOST_COUNTED, Recurrence, TooMuchWork, bind, parse_recurrence
from duly.rules.rrule_calendar import MatchingDays, TimeFilter, matching_times, periods
from duly.rules.rrule_text import FREQUENCIES, WEEKDAYS, most_to_choose_from
from tests.make import DAY, HOUR
from tests.pure.rrules import FOREVER, PART_VALUES, all_of, make_rule, moment, reading, rule_texts

# -- where dateutil errs


@pytest.mark.parametrize("number", [1, 52, 53])
def test_weeks_are_numbered_as_by_the_iso_calendar(number: int) -> None:
    rule = make_rule(f"FREQ=YEARLY;BYWEEKNO={number};UNTIL=23991231", "2000-01-01T09:00:00")
    every_day = (date(2000, 1, 1) + each * DAY for each in range(146_097))
    assert [moment(each).date() for each in all_of(rule)] == [
        day for day in every_day if day.isocalendar().week == number
    ]


def test_weeks_are_numbered_from_the_end_of_their_year_too() -> None:
    rule = make_rule("FREQ=YEARLY;BYWEEKNO=-52;BYDAY=MO;COUNT=3", "2001-01-02T09:00:00")
    assert [f"{moment(each):%F}" for each in all_of(rule)] == ["2001-12-31", "2002-12-30", "2004-01-05"]


def test_weekdays_with_and_without_a_number_add_up() -> None:
    rule = make_rule("FREQ=MONTHLY;BYDAY=MO,2TU;COUNT=6", "2024-01-01T09:00:00")
    assert [moment(each).day for each in all_of(rule)] == [1, 8, 9, 15, 22, 29]


def test_positions_in_the_week_of_the_start_are_those_of_the_whole_week() -> None:
    rule = make_rule("FREQ=WEEKLY;BYDAY=MO,FR;BYSETPOS=1;COUNT=2", "2024-01-03T09:00:00")
    assert [moment(each).day for each in all_of(rule)] == [8, 15]


def test_a_number_that_no_month_has_finds_nothing() -> None:
    assert make_rule("FREQ=YEARLY;BYMONTH=12;BYDAY=53MO").first(0) is None


# -- ends


def test_a_date_as_the_end_means_all_of_that_day() -> None:
    rule = make_rule("FREQ=HOURLY;INTERVAL=8;UNTIL=19970903", "1997-09-02T15:59:59")
    assert [f"{moment(each):%d %T}" for each in all_of(rule)] == [
        "02 15:59:59",
        "02 23:59:59",
        "03 07:59:59",
        "03 15:59:59",
        "03 23:59:59",
    ]


def test_an_end_before_the_start_leaves_nothing() -> None:
    rule = make_rule("FREQ=DAILY;UNTIL=19970901")
    assert (rule.first(0), rule.last(FOREVER), rule.count(0, FOREVER)) == (None, None, 0)


def test_the_start_counts_only_if_the_rule_says_so() -> None:
    rule = make_rule("FREQ=WEEKLY;BYDAY=MO;COUNT=1", "2024-01-03T09:00:00")
    assert [moment(each).day for each in all_of(rule)] == [8]


@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_every_frequency_ends_with_year_9998(frequency: str) -> None:
    rule = make_rule(f"FREQ={frequency};INTERVAL=2", "9996-12-31T23:59:58")
    last = rule.last(2 * FOREVER)
    assert last is not None
    assert 9996 <= moment(last).year <= 9998
    assert rule.first(last) == last
    assert rule.first(last + 1) is rule.first(FOREVER) is rule.first(10**15) is None


def test_a_week_over_the_end_of_year_9998_is_cut() -> None:
    rule = make_rule("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=1,-1;BYHOUR=3", "9998-12-20T00:00:00")
    assert [f"{moment(each):%F}" for each in all_of(rule)][-3:] == ["9998-12-21", "9998-12-27", "9998-12-28"]
    assert make_rule("FREQ=YEARLY;BYWEEKNO=52;WKST=TH", "9998-06-01T00:00:00").count(0, 2 * FOREVER) == 7


def test_eight_thousand_years_are_counted() -> None:
    assert make_rule("FREQ=YEARLY").count(0, FOREVER) == 9998 - 1997 + 1


@pytest.mark.parametrize("weekday", WEEKDAYS)
def test_a_leap_day_on_a_weekday_is_found_over_decades_without(weekday: str) -> None:
    rule = make_rule(f"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY={weekday};UNTIL=24000301", "1880-01-01T00:00:00")
    leap_years = [year for year in range(1880, 2401) if isleap(year)]
    years = [year for year in leap_years if date(year, 2, 29).weekday() == WEEKDAYS.index(weekday)]
    assert max(later - earlier for earlier, later in pairwise(years)) == 40
    readings = [reading(f"{year}-02-29") for year in years]
    assert list(all_of(rule)) == readings
    assert [rule.last(each) for each in readings] == [None, *readings[:-1]]


def test_a_recurrence_has_no_readings_before_its_start() -> None:
    rule = make_rule("FREQ=SECONDLY")
    start = reading(rule.start)
    assert (rule.first(-(10**15)), rule.last(start), rule.last(start + 1)) == (start, None, start)
    assert rule.count(-(10**15), start + 5) == 5


def test_readings_before_1970_are_negative() -> None:
    rule = make_rule("FREQ=MONTHLY;BYDAY=-1FR", "1960-01-01T09:00:00")
    assert rule.first(-300_000_000) == reading("1960-07-29T09:00:00")


# -- work is bounded


def without_zone(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)


class Looks:
    """How often the days of a rule were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        for name in ("at_or_after", "before"):
            monkeypatch.setattr(MatchingDays, name, self._counted(getattr(MatchingDays, name)))

    def _counted(self, ask: Any) -> Any:
        def counted(days: MatchingDays, day: int) -> int | None:
            self.taken += 1
            found: int | None = ask(days, day)
            return found

        return counted


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=SECONDLY",
        "FREQ=MINUTELY;INTERVAL=7",
        "FREQ=HOURLY;BYHOUR=9",
        "FREQ=DAILY",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE",
    ],
)
def test_a_start_long_ago_costs_nothing(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long_ago, now = make_rule(rule, "1926-01-01T00:00:00"), reading("2026-01-01T00:00:00")
    looks = Looks(monkeypatch)
    assert long_ago.first(now) is not None
    assert long_ago.last(now) is not None
    assert looks.taken <= 8


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=1,2;BYSETPOS=-1",
        "FREQ=MONTHLY;BYMONTH=4,6;BYMONTHDAY=31;COUNT=3",
        "FREQ=YEARLY;BYYEARDAY=1;BYMONTH=3",
        "FREQ=HOURLY;INTERVAL=6;BYHOUR=10",
        "FREQ=MINUTELY;INTERVAL=9600;BYHOUR=10",
        "FREQ=SECONDLY;INTERVAL=10000;BYSECOND=1,3,5",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=9,10;BYSETPOS=2",
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
    ],
)
def test_an_impossible_rule_has_no_readings(rule: str) -> None:
    impossible = make_rule(rule)
    assert (impossible.first(0), impossible.last(FOREVER), impossible.count(0, FOREVER)) == (None, None, 0)


@pytest.mark.parametrize(
    ("rule", "reached"),
    [
        ("FREQ=DAILY;INTERVAL=7;BYDAY=MO", "2189-05-04"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,2,3;BYDAY=MO;BYSETPOS=2", "2321-10-01"),
        ("FREQ=YEARLY;BYYEARDAY=1,2,3;BYDAY=MO;BYSETPOS=2", "5921-01-01"),
    ],
)
def test_a_search_without_result_ends_and_tells_how_far_it_went(rule: str, reached: str) -> None:
    with pytest.raises(TooMuchWork) as raised:
        make_rule(rule).first(0)
    looked = f"gave up after 10,000 steps, at {reached}, without finding an occurrence"
    assert str(raised.value) == f"{looked}: the rule is impossible or too sparse"


def test_a_search_backwards_without_result_ends() -> None:
    with pytest.raises(TooMuchWork, match=r"at 9807-.*, without finding an occurrence"):
        make_rule("FREQ=DAILY;INTERVAL=7;BYDAY=MO").last(FOREVER)


def test_a_count_that_is_hardly_ever_reached_is_refused() -> None:
    rule = make_rule("FREQ=HOURLY;INTERVAL=7;BYHOUR=9;COUNT=100000")
    with pytest.raises(TooMuchWork, match="without reaching its COUNT of 100000"):
        rule.first(0)


def test_counting_what_is_too_sparse_is_refused() -> None:
    with pytest.raises(TooMuchWork, match="without counting them all: give a shorter range"):
        make_rule("FREQ=HOURLY;INTERVAL=7;BYHOUR=9").count(0, FOREVER)


@pytest.mark.parametrize("interval", [1, 7])
def test_even_intervals_are_counted_however_many_they_are(interval: int) -> None:
    rule = make_rule(f"EXDATE;VALUE=DATE:19970903\nRRULE:FREQ=SECONDLY;INTERVAL={interval}")
    start, gone, back = reading(rule.start), reading("1997-09-03T00:00:00"), reading("1997-09-04T00:00:00")
    every = range(start, FOREVER, interval)
    lost = len(range(start, back, interval)) - len(range(start, gone, interval))
    assert rule.count(0, FOREVER) == len(every) - lost
    assert rule.count(0, back + 700) == len(range(start, back + 700, interval)) - lost


def test_counting_one_by_one_stops_at_the_most_that_is_counted() -> None:
    rule = make_rule("FREQ=MINUTELY;INTERVAL=7;BYHOUR=9,10;BYSECOND=0,30")
    assert rule.count(0, FOREVER) == MOST_COUNTED


@pytest.mark.parametrize(
    ("rule", "last"),
    [
        ("FREQ=SECONDLY;COUNT=100000", reading("1997-09-02T09:00:00") + 99_999),
        ("FREQ=DAILY;INTERVAL=3;COUNT=100000", reading("1997-09-02T09:00:00") + 99_999 * 3 * 86_400),
    ],
)
def test_the_largest_allowed_count_is_counted_to_its_end(rule: str, last: int) -> None:
    assert make_rule(rule).last(FOREVER) == last


@settings(max_examples=300)
@given(rule_texts(), st.datetimes())
def test_whatever_rule_is_read_answers_in_bounded_work(text: str, now: datetime) -> None:
    try:
        rule = bind(parse_recurrence(text), datetime.fromisoformat("1997-09-02T09:00:00"), to_wall=without_zone)
    except ValueError:
        assume(False)
    assume(rule.parts.count is None or rule.parts.count <= 10)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(rrule, "MOST_STEPS", 100)
        for question in (rule.first, rule.last):
            looks = Looks(monkeypatch)
            with suppress(TooMuchWork):
                found = question(reading(now))
                assert found is None or rule.count(found, found + 1) == 1
            assert looks.taken < 300


@pytest.mark.parametrize("frequency", FREQUENCIES)
@given(st.data())
def test_no_period_has_more_to_choose_from_than_the_text_is_measured_by(frequency: str, data: st.DataObject) -> None:
    starts = st.datetimes(datetime.fromisoformat("1999-01-01"), datetime.fromisoformat("2099-01-01"))
    values = {name: one for name, one in PART_VALUES.items() if name.startswith("BY") and name != "BYSETPOS"}
    names = data.draw(st.lists(st.sampled_from(sorted(values)), unique=True, max_size=4))
    text = ";".join([f"FREQ={frequency}", *(f"{name}={data.draw(values[name])}" for name in names)])
    try:
        rule = make_rule(text, data.draw(starts).isoformat("T", "seconds"))
    except ValueError:
        assume(False)
    lasting = periods(frequency, rule.parts.week_start)
    now = lasting.number(reading(data.draw(st.datetimes(rule.start + DAY, rule.start + 4000 * DAY))))
    for number in range(now, now + 30):
        found = rule.count(lasting.begin(number), lasting.begin(number + 1))
        assert found <= most_to_choose_from(rule.parts)


@given(
    st.builds(
        TimeFilter,
        st.sets(st.integers(0, 23), max_size=5).map(sorted).map(tuple),
        st.sets(st.integers(0, 59), max_size=5).map(sorted).map(tuple),
        st.sets(st.integers(0, 59), max_size=5).map(sorted).map(tuple),
        st.sampled_from((1, 60, 3600, 86_400)),
    ),
    st.data(),
)
def test_times_of_day_are_those_that_are_found_one_by_one(wanted: TimeFilter, data: st.DataObject) -> None:
    units = 86_400 // wanted.unit
    step = data.draw(st.sampled_from([each for each in range(1, 61) if units % each == 0]))
    positions = data.draw(st.sets(st.integers(1, 20) | st.integers(-20, -1), max_size=4))
    wanted = wanted._replace(step=step, phase=data.draw(st.integers(0, step - 1)), positions=tuple(sorted(positions)))
    allowed = [
        second
        for second in range(86_400)
        if (not wanted.hours or second // 3600 in wanted.hours)
        and (not wanted.minutes or second // 60 % 60 in wanted.minutes)
        and (not wanted.seconds or second % 60 in wanted.seconds)
        and second // wanted.unit % step == wanted.phase
    ]
    if positions:
        by_unit = [list(of_unit) for _, of_unit in groupby(allowed, key=lambda second: second // wanted.unit)]
        allowed = [
            second
            for of_unit in by_unit
            for place, second in enumerate(of_unit)
            if place + 1 in positions or place - len(of_unit) in positions
        ]
    times = matching_times(wanted)
    assert [times[place] for place in range(len(times))] == allowed
    low = data.draw(st.integers(0, 86_400))
    assert times.place(low) == bisect_left(allowed, low)
    assert not allowed or times[-1] == allowed[-1]


# -- binding and identity


def test_times_in_utc_are_turned_to_the_wall() -> None:
    text = "DTSTART:20240101T080000Z\nRRULE:FREQ=DAILY;UNTIL=20240104T080000Z\nEXDATE:20240102T080000Z,20240103T090000"
    wall = timezone(HOUR)
    rule = bind(parse_recurrence(text), to_wall=lambda moment: moment.astimezone(wall).replace(tzinfo=None))
    assert [f"{moment(each):%d %T}" for each in all_of(rule)] == ["01 09:00:00", "04 09:00:00"]


def test_a_given_start_goes_before_that_of_the_text() -> None:
    text = parse_recurrence("DTSTART:20240101T080000\nRRULE:FREQ=DAILY")
    assert bind(text).start == datetime.fromisoformat("2024-01-01T08:00:00")
    assert bind(text, datetime.fromisoformat("2024-02-01T09:00:00")).start.month == 2


def test_an_end_in_year_9999_means_no_end_in_any_zone() -> None:
    text = parse_recurrence("FREQ=YEARLY;UNTIL=99991231T235959Z")
    rule = bind(text, datetime.fromisoformat("2024-01-01"), to_wall=lambda moment: moment.astimezone(timezone(HOUR)))
    assert rule.last(FOREVER) == reading("9998-01-01")


@pytest.mark.parametrize(
    ("text", "start", "message"),
    [
        ("FREQ=DAILY", None, "a recurrence without DTSTART needs a start"),
        ("FREQ=DAILY;UNTIL=20240101T000000Z", "2024-01-01", "is in UTC, and its local time is not known"),
        ("FREQ=DAILY", "2024-01-01T00:00:00.5", "whole seconds"),
        ("FREQ=DAILY", "0999-12-31", "years 1000 to 9998"),
        ("FREQ=DAILY", "9999-01-01", "years 1000 to 9998"),
    ],
)
def test_a_recurrence_that_cannot_be_bound_is_refused(text: str, start: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bind(parse_recurrence(text), None if start is None else datetime.fromisoformat(start))


def test_a_recurrence_knows_no_zone() -> None:
    parts = parse_recurrence("FREQ=DAILY").parts
    with pytest.raises(ValueError, match="naive local times"):
        Recurrence(parts, datetime(2024, 1, 1, tzinfo=UTC))


def test_recurrences_are_equal_by_what_they_say() -> None:
    text = "EXDATE:20240102T090000,20240101T090000\nRRULE:FREQ=WEEKLY;BYDAY={}"
    one, same, other = (make_rule(text.format(days)) for days in ("MO,WE", "WE,MO,WE", "MO"))
    one.first(0)
    assert one == same
    assert len({one, same, other}) == 2
    with pytest.raises(FrozenInstanceError):
        one.start = other.start  # type: ignore[misc]
