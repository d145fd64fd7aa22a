"""How long finished events are kept, as it is written in ``DULY_RETENTION``."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.config import read_settings
from duly.decide.retention import PRUNED, Cutoff, Retention, read_retention
from duly.engine.retention.prune import next_limit
from duly.errors import BadSetting
from duly.records.event import Status
from tests.make import DAY, SECOND, START

SPANS = st.integers(1, 36_500 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
RETENTIONS = st.builds(
    Retention,
    SPANS,
    st.dictionaries(st.sampled_from(PRUNED), SPANS),
    st.dictionaries(st.text("abc.-_", min_size=1, max_size=5), SPANS),
)


@given(RETENTIONS)
def test_what_is_written_is_read_back(retention: Retention) -> None:
    assert read_retention(str(retention)) == retention


def test_a_type_is_asked_before_a_status_and_that_before_all_others() -> None:
    retention = read_retention(" 90d, completed=30d ,type:digest.send=7d,SKIPPED=1s")
    assert retention == Retention(
        90 * DAY, {Status.COMPLETED: 30 * DAY, Status.SKIPPED: SECOND}, {"digest.send": 7 * DAY}
    )
    assert retention.cutoffs(START) == [
        Cutoff("", "", START - 90 * DAY),
        Cutoff("COMPLETED", "", START - 30 * DAY),
        Cutoff("SKIPPED", "", START - SECOND),
        Cutoff("", "digest.send", START - 7 * DAY),
    ]
    assert retention.shortest == SECOND


def test_without_a_span_of_its_own_all_else_is_kept_as_usual() -> None:
    assert read_retention("completed=1h").usual == 90 * DAY


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("soon", "'soon' is not a duration"),
        ("0s", "0s is not from 1s to 36500d"),
        ("500ms", "500ms is not from 1s to 36500d"),
        ("40000d", "40000d is not from 1s to 36500d"),
        ("90d,30d", "90d and 30d both say how long all others stay"),
        ("failed=30d", "dead letters stay until somebody replays or discards them"),
        ("pending=30d", "pending events are not finished: possible are completed, cancelled, skipped"),
        ("done=30d", "'done' is neither a status .* nor a type, such as type:digest.send"),
        ("type:=7d", "type: names no type"),
        ("completed=1d,COMPLETED=2d", "COMPLETED is given twice"),
        ("90d,", "'' is not a duration"),
    ],
)
def test_a_bad_retention_names_the_variable_the_value_and_what_is_allowed(written: str, why: str) -> None:
    with pytest.raises(BadSetting, match=f"DULY_RETENTION=.*{written}.*90d,completed=30d,type:digest.send=7d.*{why}"):
        read_settings({"DULY_RETENTION": written})


def test_a_retention_is_also_an_option_in_python() -> None:
    assert read_settings({}, retention=timedelta(days=7)).retention == Retention(7 * DAY)
    assert read_settings({}, retention="1s").retention == Retention(SECOND)
    with pytest.raises(BadSetting):
        read_settings({}, retention=timedelta(0))


def test_batches_are_as_large_as_takes_10_ms_and_never_larger_than_1000() -> None:
    limits = [100]
    for seconds in (0.001, 0.002, 0.004, 0.008, 0.008, 0.03, 0.011, 0.009, 1, 1, 1, 1, 1, 1, 1):
        limits.append(next_limit(limits[-1], seconds))
    assert limits == [100, 200, 400, 800, 1000, 1000, 500, 250, 500, 250, 250, 250, 250, 250, 250, 250]
