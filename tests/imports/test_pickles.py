"""Pickles are read as trees: nothing that they name is imported, called or changed, whatever they say."""

import datetime as clock
import os
import pickle
import re
import subprocess
import sys
import time
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.imports import apscheduler
from duly.imports.apscheduler.job_store import found_in, read_job
from duly.imports.apscheduler.pickles import MOST_BYTES, MOST_STEPS, BadPickle, Global, Made, read_pickle
from duly.imports.found import Unfit
from tests.imports.jobs import SHOP, pickled_job, row

PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(st.text(), inner)),
)


@given(PLAIN, st.integers(3, pickle.HIGHEST_PROTOCOL))
def test_plain_values_are_read_as_python_reads_them(value: Any, protocol: int) -> None:
    assert read_pickle(pickle.dumps(value, protocol)) == value


def test_classes_and_calls_stay_names() -> None:
    assert read_pickle(pickle.dumps(os.system)) == Global(os.system.__module__, "system")
    made = read_pickle(pickle.dumps(clock.timedelta(1)))
    assert isinstance(made, Made)
    assert made.full_name == "datetime.timedelta"


class Evil:
    """Pickles as a call of anything."""

    def __init__(self, function: Callable[..., Any], *args: Any, state: Any = None) -> None:
        self.call = (function, args) if state is None else (function, args, state)

    def __reduce__(self) -> Any:
        return self.call


def touch(path: Path) -> str:
    return f"{sys.executable} -c \"open({str(path)!r}, 'w')\""


ATTACKS: dict[str, Callable[[Path], Any]] = {
    "os.system": lambda path: Evil(os.system, touch(path)),
    "builtins.eval": lambda path: Evil(eval, f"open({str(path)!r}, 'w')"),
    "builtins.exec": lambda path: Evil(exec, f"open({str(path)!r}, 'w')"),
    "builtins.open": lambda path: Evil(open, str(path), "w"),
    "builtins.getattr": lambda path: Evil(getattr, Evil(__import__, "os"), "system"),
    "builtins.__import__": lambda path: Evil(__import__, "antigravity"),
    "subprocess.Popen": lambda path: Evil(subprocess.Popen, ["touch", str(path)]),
    "pickle.loads": lambda path: Evil(pickle.loads, pickle.dumps(Evil(os.system, touch(path)))),
    "zoneinfo.ZoneInfo.from_file": lambda path: Evil(zoneinfo.ZoneInfo.from_file, Evil(open, str(path), "w")),
    "type": lambda path: Evil(type, "Trigger", (), {}),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "place", ["trigger", "args", "kwargs", "next_run_time", "func", "misfire_grace_time", "version"]
)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_call_in_a_job_is_refused_and_not_made(attack: str, place: str, protocol: int, tmp_path: Path) -> None:
    evil = ATTACKS[attack](tmp_path / "done")
    state: dict[str, Any] = {"args": (evil,), "kwargs": {"a": evil}}
    found = found_in([row("evil", pickled_job("evil", protocol, **{place: state.get(place, evil)})), row("good", SHOP)])
    assert [one.name for one in found.refused] == ["evil"]
    assert [job.name for job in found.jobs] == ["good"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("attack", "told"),
    [("os.system", r"\w+\.system"), ("builtins.eval", "eval"), ("subprocess.Popen", "subprocess.Popen")],
)
def test_what_is_refused_is_named(attack: str, told: str, tmp_path: Path) -> None:
    evil = ATTACKS[attack](tmp_path / "done")
    with pytest.raises(Unfit, match=told):
        read_job(row("evil", pickled_job("evil", 5, trigger=evil)))
    with pytest.raises(Unfit, match=rf"args\[0\] is made by .*{told}"):
        read_job(row("evil", pickled_job("evil", 5, args=(evil,))))


NAMED = b"c__builtin__\neval\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"Pevil\n.", "a persistent id"),
        (b"Vevil\nQ.", "a persistent id"),
        (b"\x82\x01.", "extension registry"),
        (b"\x83\x01\x00.", "extension registry"),
        (b"\x84\x01\x00\x00\x00.", "extension registry"),
        (b"\x97.", "a buffer outside"),
        (b"(ios\nsystem\n.", "an instance as Python 1 and 2"),
        (b"(" + NAMED + b"V1\no.", "an instance as Python 1 and 2"),
        (NAMED + b"}Vx\nI1\nsb.", "changes __builtin__.eval itself"),
        (b"}Vx\nI1\ns}b.", "changes a value of type dict"),
        (NAMED + b")R}b}b.", "twice"),
        (NAMED + b")}Va\nI1\ns\x92.", "keyword arguments"),
        (b"I1\nI2\n.", "does not leave one value"),
        (b".", "no valid pickle"),
        (b"", "no valid pickle"),
        (b"(.", "does not leave one value"),
        (b"N", "no valid pickle"),
        (b"((t\x85.", "a mark is where a value should be|no valid pickle"),
        (b"h\x07.", "no valid pickle"),
        (b"}I1\nI2\ns.", "a key that is no text"),
        (b"I1\nI2\na.", "appends to something"),
        (b"\x8a\xff.", "no valid pickle"),
        (b"X\xff\xff\xff\x7fx.", "no valid pickle"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx.", "no valid pickle"),
        (b"\x8b\xff\xff\xff\x7f1.", "no valid pickle"),
        (b"L" + b"9" * 10_000 + b"L\n.", "no valid pickle"),
        (b"\xff.", "no valid pickle"),
    ],
)
def test_opcodes_that_only_another_program_understands_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(BadPickle, match=reason):
        read_pickle(data)


def test_a_pickle_cannot_change_what_is_read_after_it() -> None:
    """In Python's unpickler, BUILD on an allowed class or function changes it for everybody."""
    for name in ("apscheduler.triggers.cron\nCronTrigger", "datetime\ndatetime", "zoneinfo\nZoneInfo", "pytz\n_UTC"):
        for state in (b"}V__setstate__\nI1\ns", b"N}V__code__\nI1\ns\x86"):
            with pytest.raises(BadPickle, match="itself, which is no object of its own"):
                read_pickle(b"c" + name.encode() + b"\n" + state + b"b.")
    assert read_job(row("good", SHOP)).function == "shop.jobs:report"


def test_a_reduction_of_an_allowed_class_with_other_arguments_is_refused() -> None:
    for call in (
        Evil(clock.datetime, 2026, 1, 1),
        Evil(
            clock.datetime, b"\x07\xea\x01\x01\x00\x00\x00\x00\x00\x00", Evil(clock.timezone, clock.timedelta(hours=30))
        ),
        Evil(clock.datetime, b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", clock.UTC),
        Evil(clock.timedelta, 10**10, 0, 0),
        Evil(zoneinfo.ZoneInfo, "../../../etc/passwd"),
        Evil(os.stat_result, (0,) * 10),
    ):
        with pytest.raises(Unfit):
            read_job(row("evil", pickled_job("evil", 5, next_run_time=call)))


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_arguments_that_contain_themselves_are_refused(protocol: int) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Unfit, match="args is nested more than 50 deep"):
        read_job(row("evil", pickled_job("evil", protocol, args=(endless,))))


def test_a_small_pickle_of_a_billion_values_is_refused_at_once() -> None:
    laughs: list[Any] = ["ha"]
    for _ in range(30):
        laughs = [laughs] * 10
    data = pickled_job("evil", 5, args=(laughs,))
    assert len(data) < 2_000
    began = time.process_time()
    with pytest.raises(Unfit, match="args has more than 10,000 values"):
        read_job(row("evil", data))
    assert time.process_time() - began < 1


def test_a_deep_pickle_is_refused_and_does_not_exhaust_the_stack() -> None:
    deep = b"(" * 50_000 + b"I1\n" + b"t" * 30_000
    with pytest.raises(BadPickle):
        read_pickle(deep + b".")
    data = pickled_job("evil", 5, args=("MARK",)).replace(b"\x8c\x04MARK", b")" + b"\x85" * 40_000)
    with pytest.raises(Unfit, match="nested more than 50 deep"):
        read_job(row("evil", data))


def test_a_long_pickle_is_refused_at_once() -> None:
    began = time.process_time()
    with pytest.raises(BadPickle, match="more than 100,000 steps"):
        read_pickle(b"N0" * MOST_STEPS + b"N.")
    with pytest.raises(BadPickle, match="at most 1,000,000 are read"):
        read_pickle(b"N" * (MOST_BYTES + 1))
    assert time.process_time() - began < 5


def test_a_state_that_is_too_long_is_not_even_fetched() -> None:
    found = found_in([{"id": "huge", "size": 2_000_000_000, "state": None}, row("good", SHOP)])
    assert [one.reason for one in found.refused] == ["its state has 2,000,000,000 bytes; at most 1,000,000 are read"]
    assert len(found.jobs) == 1


@given(st.data())
def test_a_damaged_pickle_is_refused_or_read_and_never_raises_anything_else(data: st.DataObject) -> None:
    damaged = bytearray(SHOP)
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    found = found_in([row("good", bytes(damaged))])
    assert len(found.jobs) + len(found.refused) == 1


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    found = found_in([row("report", data)])
    assert found.jobs == []
    assert len(found.refused) == 1


def test_no_module_of_the_reader_imports_pickle() -> None:
    folder = Path(apscheduler.__file__).parent
    imports = [
        line for file in folder.glob("*.py") for line in file.read_text("utf-8").splitlines() if "import " in line
    ]
    assert imports
    assert not [line for line in imports if re.search(r"import (pickle|dill|cloudpickle|importlib)\b", line)]


@pytest.mark.parametrize("state", ["text", 5, None])
def test_a_state_that_is_not_binary_is_refused(state: object) -> None:
    found = found_in([{"id": "odd", "size": None, "state": state}, row("good", SHOP)])
    assert found.refused[0].reason == f"its state is of type {type(state).__name__}, not binary"
    assert len(found.jobs) == 1
