import re
from contextlib import suppress
from datetime import UTC, date, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly.rules.rrule_text import FREQUENCIES, WEEKDAYS, ByDay, Parts, RecurrenceText, parse_recurrence
from tests.pure.rrules import PART_VALUES, rule_texts


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


# -- reading


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=MONTHLY;BYDAY=-1FR",
        "RRULE:FREQ=MONTHLY;BYDAY=-1FR",
        "rrule:freq=monthly;byday=-1fr",
        "  RRULE:BYDAY=-1FR;FREQ=MONTHLY;INTERVAL=1;WKST=MO  ",
        "\r\n\r\nRRULE:FREQ=MONTHLY\r\n ;BYDA\r\n\tY=-1FR\r\n",
    ],
)
def test_one_recurrence_is_read_from_many_spellings(text: str) -> None:
    assert parse_recurrence(text) == RecurrenceText(Parts("MONTHLY", by_day=(ByDay(-1, 4),)))


def test_start_zone_and_exclusions_are_read_from_their_lines() -> None:
    text = (
        "dtstart;tzid=Europe/Berlin:20240102T090000\n"
        "RRULE:FREQ=DAILY;UNTIL=20240301T080000Z\n"
        "EXDATE;TZID=Europe/Berlin:20240105T090000,20240104T090000\n"
        "EXDATE;VALUE=DATE:20240110\n"
        "EXDATE:20240104T090000,20240106T080000Z"
    )
    assert parse_recurrence(text) == RecurrenceText(
        Parts("DAILY", until=at("2024-03-01T08:00:00Z")),
        at("2024-01-02T09:00:00"),
        "Europe/Berlin",
        (at("2024-01-04T09:00:00"), at("2024-01-05T09:00:00"), at("2024-01-06T08:00:00Z"), date(2024, 1, 10)),
    )


@pytest.mark.parametrize(
    ("line", "start", "tzid"),
    [
        ("DTSTART:20240102T090000", "2024-01-02T09:00:00", None),
        ("DTSTART;VALUE=DATE-TIME:20240102T090000", "2024-01-02T09:00:00", None),
        ("DTSTART:20240102T090000Z", "2024-01-02T09:00:00Z", None),
        ("DTSTART;VALUE=DATE:20240102", "2024-01-02T00:00:00", None),
        ("DTSTART:20240102", "2024-01-02T00:00:00", None),
        ('DTSTART;TZID="America/New_York":20240102T090000', "2024-01-02T09:00:00", "America/New_York"),
        ("DTSTART;TZID=Etc/GMT+5;VALUE=DATE-TIME:20240102T090000", "2024-01-02T09:00:00", "Etc/GMT+5"),
    ],
)
def test_a_start_is_a_time_on_the_wall_or_in_utc_or_a_midnight(line: str, start: str, tzid: str | None) -> None:
    read = parse_recurrence(f"{line}\nRRULE:FREQ=DAILY")
    assert (read.start, read.tzid) == (at(start), tzid)


def test_without_a_start_the_exclusions_tell_the_zone() -> None:
    assert parse_recurrence("RRULE:FREQ=DAILY\nEXDATE;TZID=Asia/Tokyo:20240102T090000").tzid == "Asia/Tokyo"


def test_an_end_is_a_date_a_time_on_the_wall_or_in_utc() -> None:
    ends = [
        parse_recurrence(f"FREQ=DAILY;UNTIL={end}").until for end in ("20240102", "20240102T090000", "20240102T090000Z")
    ]
    assert ends == [date(2024, 1, 2), at("2024-01-02T09:00:00"), datetime(2024, 1, 2, 9, tzinfo=UTC)]


# -- writing


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("RRULE:interval=1;freq=daily;wkst=mo", "FREQ=DAILY"),
        (
            "FREQ=WEEKLY;WKST=SU;BYDAY=WE,MO,WE;INTERVAL=02;COUNT=10",
            "FREQ=WEEKLY;INTERVAL=2;COUNT=10;BYDAY=MO,WE;WKST=SU",
        ),
        ("FREQ=MONTHLY;BYDAY=-1FR,+1MO,1MO,SU", "FREQ=MONTHLY;BYDAY=SU,1MO,-1FR"),
        ("FREQ=MONTHLY;BYMONTHDAY=-1,15,-3,01", "FREQ=MONTHLY;BYMONTHDAY=1,15,-3,-1"),
        ("FREQ=DAILY;UNTIL=20240102t090000z", "FREQ=DAILY;UNTIL=20240102T090000Z"),
        ("FREQ=DAILY;UNTIL=20240102", "FREQ=DAILY;UNTIL=20240102"),
        ("FREQ=DAILY;BYHOUR=0", "FREQ=DAILY;BYHOUR=0"),
        (
            "BYSETPOS=1;BYSECOND=0;BYMINUTE=0;BYHOUR=9;BYMONTHDAY=1;BYYEARDAY=1;BYMONTH=1;FREQ=YEARLY;BYWEEKNO=1",
            "FREQ=YEARLY;BYMONTH=1;BYWEEKNO=1;BYYEARDAY=1;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0;BYSECOND=0;BYSETPOS=1",
        ),
    ],
)
def test_a_recurrence_is_written_in_one_way(written: str, canonical: str) -> None:
    assert parse_recurrence(written).text == canonical


@settings(max_examples=300)
@given(rule_texts())
def test_a_recurrence_is_read_as_it_was_written(text: str) -> None:
    try:
        read = parse_recurrence(text)
    except ValueError as refusal:
        conflict = str(refusal)
    else:
        assert parse_recurrence(read.text) == read
        assert parse_recurrence(read.text).text == read.text
        return
    assert any(words in conflict for words in ("cannot", "needs", "never matches"))  # each part alone is right


# -- refusing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a recurrence needs one RRULE, not 0"),
        ("DTSTART:20240101T000000", "a recurrence needs one RRULE, not 0"),
        ("RRULE:FREQ=DAILY\nRRULE:FREQ=DAILY", "a recurrence needs one RRULE, not 2"),
        ("RRULE:", "'' is not a part such as FREQ=DAILY"),
        ("every day", "'EVERY DAY' is not a part such as FREQ=DAILY"),
        ("FREQ=DAILY;", "'' is not a part such as FREQ=DAILY"),
        ("INTERVAL=2", "an RRULE needs FREQ, such as FREQ=DAILY"),
        (
            "FREQ=FORTNIGHTLY",
            "FREQ=FORTNIGHTLY: must be one of SECONDLY, MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY, YEARLY",
        ),
        ("FREQ=DAILY;FREQ=DAILY", "FREQ is given twice"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL=0: must be a whole number from 1 to 10000"),
        ("FREQ=DAILY;INTERVAL=10001", "INTERVAL=10001: must be a whole number from 1 to 10000"),
        ("FREQ=DAILY;INTERVAL=-1", "INTERVAL=-1: must be a whole number from 1 to 10000"),
        ("FREQ=DAILY;INTERVAL=1.5", "INTERVAL=1.5: must be a whole number from 1 to 10000"),
        ("FREQ=DAILY;INTERVAL=1_0", "INTERVAL=1_0: must be a whole number from 1 to 10000"),
        ("FREQ=DAILY;INTERVAL=", "INTERVAL=: must be a whole number from 1 to 10000"),
        ("FREQ=DAILY;COUNT=0", "COUNT=0: must be a whole number from 1 to 100000"),
        ("FREQ=DAILY;COUNT=100001", "COUNT=100001: must be a whole number from 1 to 100000"),
        (
            "FREQ=DAILY;UNTIL=20240230",
            "UNTIL=20240230: must be a date or a time such as 20301231 or 20301231T235959Z",
        ),
        (
            "FREQ=DAILY;UNTIL=2024-01-01",
            "UNTIL=2024-01-01: must be a date or a time such as 20301231 or 20301231T235959Z",
        ),
        ("FREQ=DAILY;BYMONTH=13", "BYMONTH=13: must be numbers from 1 to 12, separated by commas"),
        ("FREQ=DAILY;BYMONTH=-1", "BYMONTH=-1: must be numbers from 1 to 12, separated by commas"),
        ("FREQ=DAILY;BYMONTH=1,,2", "BYMONTH=1,,2: must be numbers from 1 to 12, separated by commas"),
        ("FREQ=YEARLY;BYWEEKNO=54", "BYWEEKNO=54: must be numbers from 1 to 53 or from -53 to -1, separated by commas"),
        (
            "FREQ=YEARLY;BYYEARDAY=0",
            "BYYEARDAY=0: must be numbers from 1 to 366 or from -366 to -1, separated by commas",
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=32",
            "BYMONTHDAY=32: must be numbers from 1 to 31 or from -31 to -1, separated by commas",
        ),
        (
            "FREQ=WEEKLY;BYDAY=MON",
            "BYDAY=MON: must be days of MO, TU, WE, TH, FR, SA, SU, such as MO or with an ordinal up to 53 such as"
            " 1MO or -1FR, separated by commas",
        ),
        (
            "FREQ=MONTHLY;BYDAY=0MO",
            "BYDAY=0MO: must be days of MO, TU, WE, TH, FR, SA, SU, such as MO or with an ordinal up to 53 such as"
            " 1MO or -1FR, separated by commas",
        ),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR=24: must be numbers from 0 to 23, separated by commas"),
        ("FREQ=DAILY;BYMINUTE=60", "BYMINUTE=60: must be numbers from 0 to 59, separated by commas"),
        (
            "FREQ=DAILY;BYSECOND=60",
            "BYSECOND=60: must be numbers from 0 to 59 (60, the leap second, is not supported), separated by commas",
        ),
        (
            "FREQ=DAILY;BYHOUR=1;BYSETPOS=367",
            "BYSETPOS=367: must be numbers from 1 to 366 or from -366 to -1, separated by commas",
        ),
        ("FREQ=DAILY;WKST=XX", "WKST=XX: must be one of MO, TU, WE, TH, FR, SA, SU"),
        (
            "FREQ=YEARLY;BYEASTER=0",
            "BYEASTER is not part of RFC 5545; its parts are FREQ, INTERVAL, COUNT, UNTIL, BYMONTH, BYWEEKNO,"
            " BYYEARDAY, BYMONTHDAY, BYDAY, BYHOUR, BYMINUTE, BYSECOND, BYSETPOS, WKST",
        ),
        ("FREQ=DAILY;COUNT=1;UNTIL=20240101", "COUNT and UNTIL cannot both be given"),
        ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO needs FREQ=YEARLY, not MONTHLY"),
        ("FREQ=DAILY;BYYEARDAY=1", "BYYEARDAY cannot be given with FREQ=DAILY; FREQ=YEARLY allows it"),
        ("FREQ=WEEKLY;BYYEARDAY=1", "BYYEARDAY cannot be given with FREQ=WEEKLY; FREQ=YEARLY allows it"),
        ("FREQ=MONTHLY;BYYEARDAY=1", "BYYEARDAY cannot be given with FREQ=MONTHLY; FREQ=YEARLY allows it"),
        (
            "FREQ=WEEKLY;BYMONTHDAY=1",
            "BYMONTHDAY cannot be given with FREQ=WEEKLY; FREQ=MONTHLY and FREQ=DAILY allow it",
        ),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY with a number needs FREQ=MONTHLY or FREQ=YEARLY, not WEEKLY"),
        ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", "BYDAY with a number cannot be given with BYWEEKNO"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS needs another part such as BYDAY to choose from"),
        (
            "FREQ=MONTHLY;BYMONTH=2;BYDAY=SU;BYSETPOS=366",
            "BYSETPOS=366 never matches: FREQ=MONTHLY with these parts has at most 5 to choose from",
        ),
        (
            "FREQ=SECONDLY;BYHOUR=9;BYSETPOS=2,-3",
            "BYSETPOS=2 never matches: FREQ=SECONDLY with these parts has at most 1 to choose from",
        ),
        (
            "RDATE:20240101T000000\nRRULE:FREQ=DAILY",
            "RDATE is not supported: a recurrence is one RRULE, with EXDATE for excluded occurrences",
        ),
        (
            "EXRULE:FREQ=DAILY\nRRULE:FREQ=DAILY",
            "EXRULE is not supported: a recurrence is one RRULE, with EXDATE for excluded occurrences",
        ),
        (
            "BEGIN:VEVENT\nRRULE:FREQ=DAILY",
            "'BEGIN' is not supported: a recurrence may have lines with DTSTART, RRULE and EXDATE",
        ),
        ('DT"START:20240101', "'DT\"START:20240101' is not a line such as DTSTART;TZID=Europe/Berlin:20300101T090000"),
        ("RRULE;X=1:FREQ=DAILY", "RRULE;X=1 is not supported; allowed: none"),
        (
            "DTSTART;VALUE=PERIOD:20240101\nRRULE:FREQ=DAILY",
            "DTSTART;VALUE=PERIOD is not supported; allowed: TZID, VALUE=DATE, VALUE=DATE-TIME",
        ),
        (
            "DTSTART;TZID=:20240101T000000\nRRULE:FREQ=DAILY",
            "DTSTART;TZID=: must be a zone's name such as Europe/Berlin",
        ),
        (
            "DTSTART;TZID=Asia/Tokyo;VALUE=DATE:20240101\nRRULE:FREQ=DAILY",
            "DTSTART: a date has no zone, so TZID and VALUE=DATE cannot both be given",
        ),
        (
            "DTSTART;TZID=Asia/Tokyo:20240101T000000Z\nRRULE:FREQ=DAILY",
            "DTSTART:20240101T000000Z: is in UTC by its Z, so TZID=Asia/Tokyo cannot be given",
        ),
        ("DTSTART:20240101\nDTSTART:20240101\nFREQ=DAILY", "a recurrence needs at most one DTSTART, not 2"),
        (
            "DTSTART:20240101T240000\nRRULE:FREQ=DAILY",
            "DTSTART:20240101T240000: must be a date or a time such as 20300131T090000, from year 1000",
        ),
        (
            "DTSTART:09991231T000000\nRRULE:FREQ=DAILY",
            "DTSTART:09991231T000000: must be a date or a time such as 20300131T090000, from year 1000",
        ),
        ("DTSTART:99990101\nRRULE:FREQ=DAILY", "DTSTART:99990101: must be in the years 1000 to 9998"),
        (
            "DTSTART:20240101\nRRULE:FREQ=DAILY;BYHOUR=9",
            "DTSTART:20240101: must have a time, since the rule has BYHOUR, BYMINUTE or BYSECOND",
        ),
        (
            "EXDATE:20240101,\nRRULE:FREQ=DAILY",
            "EXDATE:: must be a date or a time such as 20300131T090000, from year 1000",
        ),
        (
            "EXDATE;VALUE=DATE:20240101T000000\nRRULE:FREQ=DAILY",
            "EXDATE:20240101T000000: VALUE=DATE needs a date such as 20300131",
        ),
        (
            "DTSTART;TZID=Asia/Tokyo:20240101T000000\nRRULE:FREQ=DAILY\nEXDATE;TZID=Asia/Seoul:20240101T000000",
            "EXDATE;TZID=Asia/Seoul: must be that of the other lines, Asia/Tokyo",
        ),
        (
            "DTSTART:20240101T000000\nRRULE:FREQ=DAILY\nEXDATE;TZID=Asia/Seoul:20240101T000000",
            "EXDATE;TZID=Asia/Seoul: must be that of DTSTART, which has none",
        ),
        ("FREQ=DAILY;BYHOUR=" + "1," * 1000, "a recurrence of 2018 characters is too long: at most 2000"),
        ("FREQ=DAİLY", "a recurrence is written in ASCII only"),
    ],
)
def test_a_wrong_part_of_a_recurrence_is_named_with_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_recurrence(text)


words = [*FREQUENCIES, *WEEKDAYS, *PART_VALUES, "FREQ", "RRULE", "DTSTART", "EXDATE", "RDATE", "TZID", "VALUE", "DATE"]
signs = [*'=;:,-+"/0159 \t\n\r', "\r\n", "\r\n ", "\0", "²", "20240101", "T090000", "Z", "FREQ=DAILY", "\nEXDATE:"]
pieces = st.sampled_from([*words, *signs])
soups = st.text(max_size=200) | st.lists(pieces, max_size=60).map(lambda drawn: "".join(drawn)[:200])


@settings(max_examples=500)
@given(soups)
@example(";" * 200)
@example(":" * 200)
@example("DTSTART" + ";A=" * 60 + '"')
@example("RRULE:FREQ=DAILY;INTERVAL=" + "9" * 170)
@example("EXDATE:" + "," * 190)
def test_any_text_is_read_as_a_recurrence_or_refused(text: str) -> None:
    with suppress(ValueError):
        read = parse_recurrence(text)
        assert parse_recurrence(read.text).parts == read.parts
