"""Which line of a crontab keeps, takes over or gets which schedule."""

import pytest

from duly.cli.schedules.imports.cron_commands import CronWork
from duly.cli.schedules.imports.matching import Line, matched


def line(written: str, name: str | None = None, *, movable: bool = True) -> Line:
    """A line such as ``3 backup --full``: the hour, and the command."""
    hour, _, command = written.partition(" ")
    return Line(name, CronWork(command, ""), command.split()[0], f"0 {hour} * * *", movable)


def kept(now: list[str], before: list[str]) -> dict[str, str]:
    """The lines now, and the lines before whose schedules they have."""
    pairs = matched([line(one) for one in now], [line(one, f"schedule {at}") for at, one in enumerate(before)])
    return {now[at]: before[old] for at, old in pairs.items()}


BEFORE = ["1 backup", "2 rotate logs", "3 report --mail"]


def test_unchanged_lines_keep_their_schedules_wherever_they_stand() -> None:
    assert kept(BEFORE[::-1], BEFORE) == {one: one for one in BEFORE}
    assert kept(["9 new", *BEFORE, "9 newer"], BEFORE) == {one: one for one in BEFORE}


def test_a_line_with_another_time_keeps_its_schedule_wherever_it_stands() -> None:
    assert kept(["3 report --mail", "5 backup"], BEFORE) == {
        "3 report --mail": "3 report --mail",
        "5 backup": "1 backup",
    }


@pytest.mark.parametrize(
    ("now", "took"),
    [
        (["1 backup", "2 rotate logs --all", "3 report --mail"], {"2 rotate logs --all": "2 rotate logs"}),
        (["1 backup", "7 tidy", "3 report --mail"], {"7 tidy": "2 rotate logs"}),
        (["1 save", "2 rotate logs", "3 tell"], {"1 save": "1 backup", "3 tell": "3 report --mail"}),
        (
            ["4 save", "5 sweep", "6 tell"],
            {"4 save": "1 backup", "5 sweep": "2 rotate logs", "6 tell": "3 report --mail"},
        ),
    ],
)
def test_a_changed_line_takes_over_the_schedule_of_the_line_that_is_gone_from_its_place(
    now: list[str], took: dict[str, str]
) -> None:
    found = kept(now, BEFORE)
    assert {new: old for new, old in found.items() if new != old} == took


def test_a_new_line_at_another_place_takes_over_nothing() -> None:
    assert kept(["2 rotate logs", "3 report --mail", "9 new"], BEFORE) == {one: one for one in BEFORE[1:]}
    assert kept(["9 new", "1 backup", "3 report --mail"], BEFORE) == {one: one for one in (BEFORE[0], BEFORE[2])}


def test_of_several_changed_lines_in_a_place_those_with_the_same_program_or_time_come_first() -> None:
    before = ["1 first", "2 backup", "3 rotate", "9 last"]
    assert kept(["1 first", "3 sweep", "5 backup --full", "9 last"], before) == {
        "1 first": "1 first", "5 backup --full": "2 backup", "3 sweep": "3 rotate", "9 last": "9 last",
    }  # fmt: skip
    assert kept(["1 first", "7 x", "8 backup --full", "9 last"], ["1 first", "2 backup", "9 last"]) == {
        "1 first": "1 first", "8 backup --full": "2 backup", "9 last": "9 last",
    }  # fmt: skip


def test_repeated_lines_keep_their_schedules_in_their_order() -> None:
    same = [line("1 x", "a"), line("1 x", "b"), line("2 x", "c")]
    assert matched([line("2 x"), line("1 x"), line("1 x")], same) == {0: 2, 1: 0, 2: 1}
    assert matched([line("5 x"), line("1 x")], same) == {1: 0, 0: 1}


def test_a_name_comes_before_all_else() -> None:
    known = [line("1 backup", "nightly"), line("2 report", "report-0a1b2c")]
    assert matched([line("2 report", "nightly"), line("1 backup", "other")], known)[0] == 0
    assert matched([line("4 other", "nightly")], known) == {0: 0}


def test_a_line_that_gets_a_name_keeps_its_schedule_and_so_does_one_that_loses_it() -> None:
    assert matched([line("1 backup", "nightly")], [line("1 backup", "backup-0a1b2c")]) == {0: 0}
    assert matched([line("1 backup")], [line("1 backup", "nightly", movable=False)]) == {0: 0}


def test_another_line_does_not_take_over_a_schedule_that_a_person_has_named() -> None:
    assert matched([line("1 other")], [line("1 backup", "nightly", movable=False)]) == {}


def test_an_empty_file_keeps_nothing() -> None:
    assert matched([], [line("1 x", "a")]) == {}
    assert matched([line("1 x")], []) == {}
