from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.decide.checks import retry_problems
from duly.decide.retry import DEFAULT, Retry, parse_retry, read_retry, retry_text
from duly.errors import Invalid
from tests.make import HOUR, MINUTE, SECOND

policies = st.builds(
    Retry,
    max_attempts=st.integers(1, 1000),
    base=st.timedeltas(timedelta(), timedelta(days=365)),
    factor=st.floats(1, 100) | st.integers(1, 100).map(float),
    max=st.timedeltas(timedelta(), timedelta(days=365)),
)
jitters = st.floats(0, 1, exclude_max=True)


def test_the_backoff_grows_by_the_factor_up_to_the_longest_wait() -> None:
    retry = Retry(base=30 * SECOND, factor=4, max=HOUR)
    assert [retry.least(attempt) for attempt in (1, 2, 3, 4, 5, 6)] == [
        30 * SECOND,
        2 * MINUTE,
        8 * MINUTE,
        32 * MINUTE,
        HOUR,
        HOUR,
    ]


@given(retry=policies, attempt=st.integers(1, 10**6), jitter=jitters)
def test_the_wait_is_never_shorter_than_the_backoff_and_at_most_a_quarter_longer(
    retry: Retry, attempt: int, jitter: float
) -> None:
    least = retry.least(attempt)
    assert least <= retry.wait(attempt, jitter) <= 1.25 * least
    assert timedelta() <= least <= retry.max


@given(retry=policies, attempt=st.integers(1, 10**6))
def test_the_jitter_fills_a_quarter_of_the_backoff(retry: Retry, attempt: int) -> None:
    least, half = retry.least(attempt), retry.wait(attempt, 0.5)
    assert abs(8 * (half - least) - least) <= timedelta(microseconds=8)


@given(retry=policies, attempt=st.integers(1, 1000))
def test_the_backoff_never_shrinks(retry: Retry, attempt: int) -> None:
    assert retry.least(attempt) <= retry.least(attempt + 1)


@pytest.mark.parametrize("attempt", [10**3, 10**6, 10**9, 2**63])
@pytest.mark.parametrize("factor", [1.0, 1.0000001, 4.0, 100.0])
def test_huge_attempts_do_not_overflow(attempt: int, factor: float) -> None:
    assert Retry(base=SECOND, factor=factor, max=HOUR).least(attempt) <= HOUR


def test_the_factor_of_a_backoff_may_be_a_whole_number() -> None:
    assert Retry(base=SECOND, factor=100, max=HOUR).least(1000) == HOUR


def test_attempts_are_spent_when_there_are_as_many_as_allowed() -> None:
    assert [Retry(max_attempts=3).spent(attempt) for attempt in (1, 2, 3, 4)] == [False, False, True, True]


# -- how it is written


@given(policies)
def test_a_retry_policy_is_read_as_it_was_written(retry: Retry) -> None:
    assert read_retry(retry_text(retry)) == retry
    assert parse_retry(msgspec.json.decode(msgspec.json.encode(retry.to_json()))) == retry


def test_the_default_retry_policy_is_not_written() -> None:
    assert retry_text(DEFAULT) is None
    assert retry_text(Retry(max_attempts=3)) is None
    assert read_retry(None) is DEFAULT


def test_a_policy_may_say_only_what_differs() -> None:
    assert parse_retry({"max_attempts": 9}) == Retry(max_attempts=9)
    assert parse_retry({"max": "5m"}) == Retry(max=5 * MINUTE)
    assert parse_retry({}) == DEFAULT


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        (None, ["retry"]),
        ("3", ["retry"]),
        ([3], ["retry"]),
        ({"base": "soon"}, ["retry.base"]),
        ({"base": 30}, ["retry.base"]),
        ({"max": None}, ["retry.max"]),
        ({"max_attempts": "3"}, ["retry.max_attempts"]),
        ({"max_attempts": 2.5}, ["retry.max_attempts"]),
        ({"max_attempts": True}, ["retry.max_attempts"]),
        ({"factor": "4"}, ["retry.factor"]),
        ({"attempts": 3}, ["retry.attempts"]),
        ({"attempts": 3, "base": "x", "factor": None}, ["retry.attempts", "retry.base", "retry.factor"]),
    ],
)
def test_a_bad_policy_is_refused_with_every_field_at_once(written: Any, paths: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        parse_retry(written)
    assert [problem.path for problem in refused.value.problems] == paths


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"max_attempts": 0}, "retry.max_attempts"),
        ({"max_attempts": 1001}, "retry.max_attempts"),
        ({"base": -SECOND}, "retry.base"),
        ({"base": timedelta(days=366)}, "retry.base"),
        ({"max": -SECOND}, "retry.max"),
        ({"max": timedelta.max}, "retry.max"),
        ({"factor": 0.5}, "retry.factor"),
        ({"factor": 101}, "retry.factor"),
        ({"factor": float("nan")}, "retry.factor"),
        ({"factor": float("inf")}, "retry.factor"),
    ],
)
def test_a_policy_out_of_bounds_is_a_problem(fields: dict[str, Any], path: str) -> None:
    assert [problem.path for problem in retry_problems(Retry(**fields))] == [path]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"max_attempts": "3"}, "retry.max_attempts"),
        ({"max_attempts": None}, "retry.max_attempts"),
        ({"max_attempts": 2.5}, "retry.max_attempts"),
        ({"max_attempts": True}, "retry.max_attempts"),
        ({"base": 30}, "retry.base"),
        ({"base": "30s"}, "retry.base"),
        ({"max": None}, "retry.max"),
        ({"factor": "4"}, "retry.factor"),
        ({"factor": None}, "retry.factor"),
        ({"factor": True}, "retry.factor"),
    ],
)
def test_a_policy_of_wrong_types_is_a_problem_and_no_traceback(fields: dict[str, Any], path: str) -> None:
    """Also where Python would compare them: what is stored must be readable again."""
    assert [problem.path for problem in retry_problems(Retry(**fields))] == [path]


def test_something_else_than_a_retry_policy_is_a_problem() -> None:
    for other in (None, 3, {"max_attempts": 3}, "3"):
        assert [problem.path for problem in retry_problems(other)] == ["retry"]


def test_a_whole_number_may_be_written_with_a_fraction() -> None:
    assert parse_retry({"max_attempts": 3.0}).max_attempts == 3
    with pytest.raises(Invalid, match="max_attempts"):
        parse_retry({"max_attempts": 3.5})
