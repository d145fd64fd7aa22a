from datetime import UTC, datetime, timedelta, timezone

import pytest

from duly.errors import Invalid
from duly.rules.notation import parse_rule
from duly.values.instants import read_moment

NINE = datetime(2026, 12, 1, 9)  # noqa: DTZ001 - of any zone


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-12-01", datetime(2026, 12, 1)),  # noqa: DTZ001 - of any zone
        ("2026-12-01T09:00", NINE),
        ("2026-12-01 09:00:00", NINE),
        ("2026-12-01t09:00:00.25", NINE + timedelta(milliseconds=250)),
        ("2026-12-01T09:00:00Z", NINE.replace(tzinfo=UTC)),
        ("2026-12-01T09:00z", NINE.replace(tzinfo=UTC)),
        ("2026-12-01T09:00:00.123456789Z", NINE.replace(tzinfo=UTC, microsecond=123456)),
        ("2026-12-01T09:00:00+05:30", NINE.replace(tzinfo=timezone(timedelta(hours=5, minutes=30)))),
    ],
)
def test_a_moment_is_a_date_and_perhaps_a_time_and_an_offset(written: str, moment: datetime) -> None:
    assert read_moment(written) == moment


@pytest.mark.parametrize(
    "written",
    "20261201 2026-W49-2 2026W492T0900 2026-12-01T0900 2026-12-01T09 2026-12-01Z 2026-12-01T09:00+0530 2026-02-30 "
    "2026-13-01 2026-12-01T24:00 2026-12-01T09:60 2026-12-01T09:00:00,5 ٢٠٢٦-12-01 2026-12-01T09:00+24:00".split(),
)
def test_other_spellings_and_dates_that_do_not_exist_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"neither an instant|day|month"):
        read_moment(written)


@pytest.mark.parametrize("rule", [
    {"at": "20261201T090000Z"}, {"every": "1h", "start": "2026W492T0900Z"}, {"yearly": "03-15", "at": "0900"},
    {"yearly": "03-15", "at": "T09:00"}, {"rrule": "FREQ=DAILY", "exdate": ["20261224"]},
])  # fmt: skip
def test_a_rule_has_one_spelling_of_dates_and_times(rule: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        parse_rule(rule, "UTC")
