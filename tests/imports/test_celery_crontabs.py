"""Celery's crontabs: their text, and their runs beside those of the rules that they become."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab, crontab_parser
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.imports.celery.crontab_fields import NAMES, fields_of
from duly.imports.celery.runs import runs_of_schedule
from duly.imports.celery.tasks import crontab_fields
from duly.imports.comparison import compare
from duly.imports.found import Unfit
from duly.rules.notation import parse_rule
from duly.rules.policies import read_policies
from duly.rules.timetable import Timetable

ZONES = ["UTC", "Europe/Brussels", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Santiago"]
START = datetime(2026, 1, 31, 22, 17, tzinfo=UTC)
SIZES = {"minutes": (60, 0), "hours": (24, 0), "days": (31, 1), "months": (12, 1), "weekdays": (7, 0)}

TEXTS = (
    "* */7 */15 1 1,2 1-5 5-1 fri-mon mon-friday Sunday jan-mar */0 */ 1-30/7 40-10 40-10/7 7 60 -1 mon,wed,7 1,,2 x "
    "1-5/2y 1-5x */2,3 2,*/20 31 12 december sat-sun/2 0-0 1/5 **"
).split()


@pytest.mark.parametrize("field", SIZES)
@pytest.mark.parametrize("text", [*TEXTS, " 3", "1, 2", ""])
def test_a_field_means_what_celery_reads_in_it(field: str, text: str) -> None:
    written: dict[str, Any] = dict.fromkeys(NAMES.values(), "*") | {NAMES[field]: text}
    try:
        theirs = set(crontab_parser(*SIZES[field]).parse(text))
    except Exception:
        theirs = set()
    if theirs:
        assert getattr(fields_of(written), field).values == theirs
    else:
        with pytest.raises(Unfit, match=f"its {NAMES[field]} "):
            fields_of(written)


@pytest.mark.parametrize("given_as", [5, [5, 7], {5, 7}, (5,), range(5, 8)])
def test_a_field_may_be_a_number_or_numbers(given_as: Any) -> None:
    written: dict[str, Any] = dict.fromkeys(NAMES.values(), "*") | {"minute": given_as}
    assert fields_of(written).minutes.values == crontab(minute=given_as).minute


def texts(low: int, high: int, steps: bool = True) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    spans = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    parts = [number.map(str), spans]
    if steps:
        parts.append(st.integers(2, high // 2).map(lambda step: f"*/{step}"))
    listed = st.lists(st.one_of(*parts), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), listed)


CRONTABS = st.fixed_dictionaries(
    {
        "minute": st.one_of(texts(0, 59), st.sampled_from(["0", "30", "*/5", "*/7"])),
        "hour": texts(0, 23),
        "day_of_month": st.one_of(st.just("*"), texts(1, 28)),
        "month_of_year": st.one_of(st.just("*"), texts(1, 12)),
        "day_of_week": st.one_of(st.just("*"), texts(0, 6)),
    }
)


@given(CRONTABS, st.sampled_from(ZONES))
@settings(max_examples=40, deadline=None)
def test_a_crontab_and_its_rule_run_at_the_same_instants_except_when_clocks_change(
    written: dict[str, str], zone: str
) -> None:
    fields = crontab_fields(fields_of(written), zone)
    rule = parse_rule(fields["rule"], zone, read_policies({"dst": fields.get("dst")}, zone).dst).anchored(START)
    table = Timetable(rule, read_policies({}, zone))
    theirs = crontab(**written, app=Celery("test", set_as_current=False, changes={"timezone": zone}))
    found = compare(table, runs_of_schedule(theirs), START, START + timedelta(days=400), "celery")
    unexplained = [one for one in found.differences if "clocks" not in one.reason]
    assert not unexplained
    assert found.same > 0 or table.after(START) is None or table.count(START, START + timedelta(days=400)) == 0
