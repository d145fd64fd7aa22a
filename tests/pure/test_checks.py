from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.decide.checks import LONGEST, MAX_PAYLOAD, name_problems, target_problems, timer_problems, write_json
from duly.decide.planning import plan
from duly.errors import Invalid, Problem
from duly.ids import new_ids
from duly.records.event import Timer
from duly.values.instants import due_problems
from tests.make import START

CHANNELS = ("webhook", "post")


def nested(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def problem_with(payload: Any) -> Problem:
    written = write_json(payload, "payload")
    assert isinstance(written, Problem), f"accepted as {written:.100}"
    assert written.path == "payload"
    return written


# -- all at once


def test_all_problems_of_a_timer_are_told_at_once() -> None:
    timer = Timer(
        due=datetime(2026, 1, 1),  # noqa: DTZ001 - that is the point
        type="",
        payload=object(),
        key=" k",
        tenant="x" * 101,
        target={"pigeon": "post"},
        retry=None,  # type: ignore[arg-type]
        correlation_id="a\nb",
    )
    with pytest.raises(Invalid) as refused:
        plan((timer,), CHANNELS, new_ids)
    paths = [problem.path for problem in refused.value.problems]
    assert sorted(paths) == ["correlation_id", "due", "key", "payload", "retry", "target", "tenant", "type"]
    for problem in refused.value.problems:
        assert str(problem) in str(refused.value)


def test_a_message_about_many_problems_stays_short() -> None:
    with pytest.raises(Invalid) as refused:
        plan([Timer(START, "") for _ in range(1000)], CHANNELS, new_ids)
    assert len(refused.value.problems) == 1000
    assert str(refused.value).endswith("; and 980 more")


WRONG: list[Any] = [None, 7, 7.5, True, b"bytes", [], {}, object(), (), {1}, START.date()]


@pytest.mark.parametrize("field", ["due", "type", "key", "tenant", "target", "retry", "correlation_id"])
def test_a_wrong_type_of_any_field_is_a_problem_and_no_traceback(field: str) -> None:
    may_be_missing = {"key", "target", "correlation_id"}
    for wrong in WRONG:
        if (wrong is None and field in may_be_missing) or (field == "due" and type(wrong) in (int, float)):
            continue  # a number is a delay
        fields: dict[str, Any] = {"due": START, "type": "greet"}
        timer = Timer(**(fields | {field: wrong}))
        with pytest.raises(Invalid) as refused:
            plan((timer,), CHANNELS, new_ids)
        assert {problem.path for problem in refused.value.problems} == {field}, wrong


def test_something_else_than_a_timer_is_a_problem_and_no_traceback() -> None:
    others: list[Any] = [{"due": START, "type": "greet"}, None, (START, "greet"), "greet"]
    for other in others:
        with pytest.raises(Invalid, match=r"\[0\]"):
            plan([other], CHANNELS, new_ids)


# -- due


class Homeless(tzinfo):
    """A zone that does not know its offset: such a datetime is naive, whatever it carries."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> None:
        return None


@pytest.mark.parametrize(
    ("due", "message"),
    [
        (datetime(2026, 1, 1), "has no time zone: use an aware datetime"),  # noqa: DTZ001 - that is the point
        (datetime(2026, 1, 1, tzinfo=Homeless()), "has no time zone"),
        (datetime(1, 1, 1, tzinfo=UTC), "out of range: the year must be 2 to 9998"),
        (datetime(9999, 12, 31, tzinfo=UTC), "out of range"),
        (timedelta.max, "out of range: at most 365,000 days"),
        (timedelta.min, "out of range"),
        ("2026-01-01T00:00:00Z", "expected a datetime or a timedelta, not str"),
        (1767225600, "expected a datetime or a timedelta, not int"),
        (None, "expected a datetime or a timedelta, not NoneType"),
        (START.date(), "expected a datetime or a timedelta, not date"),
    ],
)
def test_a_due_time_that_cannot_be_meant_is_a_problem(due: Any, message: str) -> None:
    [problem] = due_problems(due)
    assert problem.path == "due"
    assert message in problem.message


@pytest.mark.parametrize(
    "due",
    [START, datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC), timedelta(), timedelta(days=-365_000)],
)
def test_any_aware_due_time_is_fine(due: Any) -> None:
    assert list(due_problems(due)) == []


# -- names


@pytest.mark.parametrize("field", sorted(LONGEST))
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "must have 1 to"),
        ("a\x00b", "U+0000"),
        ("a\nb", "U+000A"),
        ("a\ud800b", "U+D800"),
        ("a\u200bb", "U+200B"),
        ("a\u2028b", "U+2028"),
        ("\u3164", "has an invisible character: U+3164"),
        ("admin\u3164", "U+3164"),
        ("\u115f\u1160", "U+115F"),
        ("a\uffa0", "U+FFA0"),
        ("a\u034fb", "U+034F"),
        ("\u2800", "U+2800"),
        ("a\ufe0f", "U+FE0F"),
        ("a\U000e0100", "U+E0100"),
        (" a", "begins or ends with a space"),
        ("a ", "begins or ends with a space"),
        (7, "expected text, not int"),
        (None, "expected text, not NoneType"),
        (b"a", "expected text, not bytes"),
    ],
)
def test_a_name_that_logs_and_headers_cannot_carry_is_a_problem(field: str, value: Any, message: str) -> None:
    [problem] = name_problems(field, value)
    assert problem.path == field
    assert message in problem.message


@pytest.mark.parametrize("field", sorted(LONGEST))
def test_a_name_may_be_as_long_as_the_limit(field: str) -> None:
    assert list(name_problems(field, "é" * LONGEST[field])) == []
    [problem] = name_problems(field, "é" * (LONGEST[field] + 1))
    assert f"must have 1 to {LONGEST[field]} characters, has {LONGEST[field] + 1}" == problem.message


@pytest.mark.parametrize(
    "name", ["invoice.overdue", "a b", "ключ", "🎂", "it's", "100%", "a:b/c?d#e", "--", "'; DROP TABLE"]
)
def test_any_printable_name_within_the_limit_is_fine(name: str) -> None:
    assert list(name_problems("key", name)) == []


# -- targets


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({}, "expected an object with one channel"),
        ({"webhook": "x", "post": "y"}, "expected an object with one channel"),
        ("webhook", "expected an object with one channel"),
        ({"pigeon": "post"}, "unknown channel 'pigeon'; known: post, webhook"),
        ({7: "x"}, "unknown channel 7"),
    ],
)
def test_a_target_without_a_known_channel_is_a_problem(target: Any, message: str) -> None:
    [problem] = target_problems(target, CHANNELS)
    assert problem.path == "target"
    assert message in problem.message


def test_a_target_where_there_are_no_channels_is_a_problem_that_says_so() -> None:
    [problem] = target_problems({"webhook": "x"}, ())
    assert "none, because only Python handlers are used" in problem.message


def test_a_target_that_is_not_json_is_a_problem() -> None:
    with pytest.raises(Invalid) as refused:
        plan((Timer(START, "greet", target={"post": object()}),), CHANNELS, new_ids)
    assert [problem.path for problem in refused.value.problems] == ["target"]


def test_nothing_is_wrong_with_a_timer_that_says_only_when_and_what() -> None:
    assert list(timer_problems(Timer(START, "greet"), CHANNELS)) == []


# -- payloads

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(json_values)
def test_whatever_json_can_carry_is_written_and_read_back_equal(value: Any) -> None:
    written = write_json(value, "payload")
    assert isinstance(written, str)
    assert msgspec.json.decode(written) == value


def test_nul_is_text_like_any_other() -> None:
    written = write_json({"a\x00": "\x00b"}, "payload")
    assert isinstance(written, str)
    assert msgspec.json.decode(written) == {"a\x00": "\x00b"}


@pytest.mark.parametrize("payload", ["\ud800", {"a": ["\udfff"]}, {"\ud800": 1}])
def test_a_lone_surrogate_is_a_problem(payload: Any) -> None:
    assert "half of a surrogate pair" in problem_with(payload).message


def test_a_payload_of_a_hundred_levels_is_fine() -> None:
    assert isinstance(write_json(nested(100), "payload"), str)


@pytest.mark.parametrize("levels", [101, 1_000, 100_000])
def test_a_payload_of_more_than_a_hundred_levels_is_a_problem(levels: int) -> None:
    assert "nested deeper than 100 levels" in problem_with(nested(levels)).message


def test_a_payload_within_itself_is_a_problem() -> None:
    payload: list[Any] = []
    payload.append(payload)
    assert "nested deeper" in problem_with(payload).message


def test_brackets_in_text_are_not_nesting() -> None:
    assert isinstance(write_json("[" * 1000, "payload"), str)
    assert isinstance(write_json(["[{"] * 1000, "payload"), str)
    assert isinstance(write_json([[]] * 1000, "payload"), str)


def test_a_payload_has_a_largest_size_to_the_byte() -> None:
    assert isinstance(write_json("x" * (MAX_PAYLOAD - 2), "payload"), str)
    assert "at most 1,048,576" in problem_with("x" * (MAX_PAYLOAD - 1)).message
    assert isinstance(problem_with("é" * (MAX_PAYLOAD // 2)), Problem), "bytes count, not characters"


def test_ten_megabytes_are_a_problem_that_says_what_to_do() -> None:
    message = problem_with("x" * 10_000_000).message
    assert "10,000,002 bytes" in message
    assert "store it elsewhere and send a reference" in message


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_a_problem_wherever_it_is(number: float) -> None:
    for payload in (number, [number], {"a": {"b": [1, (number,)]}}, [None, number]):
        assert "not finite" in problem_with(payload).message


def test_null_is_not_mistaken_for_a_number() -> None:
    for payload in (None, [None], {"a": None}, "null", ["null", 1.5]):
        assert isinstance(write_json(payload, "payload"), str)


@dataclass
class Reading:
    value: float


class Stranger:
    pass


@pytest.mark.parametrize(
    "payload",
    [object(), Stranger(), print, type, {"a": object()}, [Stranger()], {(1, 2): 3}, {None: 1}, range(3), iter([]), 1j],
    ids=lambda payload: type(payload).__name__,
)
def test_a_payload_that_is_not_json_is_a_problem(payload: Any) -> None:
    assert "cannot be encoded as JSON" in problem_with(payload).message


@pytest.mark.parametrize("payload", [{1, 2}, frozenset("ab"), {"tags": {"a"}}], ids=["set", "frozenset", "inside"])
def test_a_set_in_a_payload_is_a_problem(payload: Any) -> None:
    """It would come back as a list, in whatever order."""
    assert problem_with(payload).message


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400], ids=["unsigned", "signed", "googol"])
def test_a_huge_whole_number_comes_back_equal(number: int) -> None:
    written = write_json([number], "payload")
    assert isinstance(written, str)
    assert msgspec.json.decode(written) == [number]


def test_a_whole_number_beyond_what_python_reads_is_a_problem() -> None:
    assert "cannot be encoded as JSON" in problem_with({"n": 10**5000}).message


def test_a_naive_datetime_in_a_payload_is_a_problem() -> None:
    """What it means depends on who reads it."""
    assert problem_with({"when": datetime(2026, 1, 1)}).message  # noqa: DTZ001 - that is the point


def test_a_number_that_is_not_finite_inside_an_object_is_a_problem() -> None:
    assert "not finite" in problem_with(Reading(float("nan"))).message
    assert "not finite" in problem_with([{"a": Reading(float("inf"))}]).message


def test_no_character_that_unicode_lets_be_ignored_is_in_a_name() -> None:
    """Those of DerivedCoreProperties.txt of Unicode 16 that are assigned; Python's own tables do not have the list."""
    ignorable = [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)]
    ignorable += [*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0]
    ignorable += [*range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)]
    assert [hex(code) for code in ignorable if not name_problems("name", f"a{chr(code)}b")] == []


def test_the_delay_of_a_timer_may_be_text_or_a_number_of_seconds() -> None:
    for due in ("60s", 60, 60.0):
        [event] = plan((Timer(due, "greet"),), CHANNELS, new_ids)
        assert event.delay == timedelta(minutes=1)
    with pytest.raises(Invalid, match=r"due: .*or a datetime"):
        plan((Timer("soon", "greet"),), CHANNELS, new_ids)


def test_what_was_not_given_is_told_without_a_word_of_python() -> None:
    [problem] = Invalid([Problem("limit", "must be a number, not None")]).problems
    assert problem.message == "must be a number, and nothing was given"


def test_a_debounced_timer_cannot_be_once() -> None:
    with pytest.raises(Invalid, match="once: cannot be true with quiet"):
        plan((Timer(None, "greet", key="k", quiet="1m", once=True),), CHANNELS, new_ids)
