"""A sentence is for people: no statement and no line of code goes by the words of `held` or `halted`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import duly
from duly.stores.queries import load

SOURCE = Path(duly.__file__).parent
SENTENCES = ("held", "halted")
WORD = rf"(?:\w+\.)?(?:{'|'.join(SENTENCES)})\b"
MATCHED = re.compile(
    rf"\b(?:WHERE|AND|OR|NOT|WHEN|ON|CASE|FILTER|BY)\s+\(*{WORD}\s*(?:=|<>|!=|<|>|~|\|\||(?:NOT\s+)?(?:LIKE|ILIKE|IN|GLOB)\b)"
    rf"|\b{WORD}\s+(?:NOT\s+)?(?:LIKE|ILIKE|GLOB|SIMILAR|REGEXP)\b"
    rf"|\b(?:starts_with|substr|substring|split_part|left|right|instr|strpos|position|coalesce|lower|length)\(\s*{WORD}",
    re.IGNORECASE,
)
TAKEN_APART = frozenset(
    "startswith endswith removeprefix removesuffix partition rpartition split rsplit find index match search".split()
)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_no_statement_matches_a_sentence(dialect: str) -> None:
    assert {name: found[0] for name, query in load(dialect).items() if (found := MATCHED.search(query.sql))} == {}


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_statement_that_writes_a_sentence_writes_its_kind(dialect: str) -> None:
    """The triggers for processes of the version before would hide that one was forgotten."""
    for name, query in load(dialect).items():
        if query.reads:
            continue
        written = set(re.findall(r"(\w+) = ", query.sql)) | set(re.findall(r"\w+", _inserted(query.sql)))
        if "held" in written:
            assert "hold_kind" in written, name
            assert "held_for" in written or name == "plant", name
        if "halted" in written:
            assert "halt_kind" in written, name


def _inserted(sql: str) -> str:
    found = re.search(r"INSERT INTO (?:duly\.)?(?:events|schedules)[^(]*\(([^)]*)\)", sql)
    return "" if found is None else found[1]


def test_no_line_of_code_matches_a_sentence() -> None:
    assert [told for path in sorted(SOURCE.rglob("*.py")) for told in matched(path)] == []


def matched(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                if any(not isinstance(op, ast.Is | ast.IsNot) for op in ops) and any(map(is_sentence, (left, *others))):
                    yield f"{path}:{node.lineno}: {ast.unparse(node)}"
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in TAKEN_APART and is_sentence(value):
                yield f"{path}:{node.lineno}: {ast.unparse(node)}"
            case ast.Match(subject=subject) if is_sentence(subject):
                yield f"{path}:{node.lineno}: {ast.unparse(subject)}"


def is_sentence(node: ast.AST) -> bool:
    """Whether it is a sentence, also with a default: ``(schedule.halted or "")``."""
    if isinstance(node, ast.BoolOp):
        return any(map(is_sentence, node.values))
    return isinstance(node, ast.Attribute) and node.attr in SENTENCES


@pytest.mark.parametrize(
    "line",
    [
        'event.held == "paused"',
        '"paused" != event.held',
        'schedule.halted in ("ended",)',
        '(schedule.halted or "").startswith("error: ")',
        'event.held.partition(" ")',
    ],
)
def test_a_line_that_does_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(line)
    assert len(list(matched(tmp_path / "one.py"))) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "WHERE held LIKE :reason",
        "AND (e.held = :paused AND s.enabled)",
        "WHEN s.enabled AND s.halted = 'paused' THEN",
        "AND starts_with(held, :begins)",
        "split_part(e.held, ' ', 2)",
        "coalesce(s.halted, '') <> 'ended'",
        "substr(held, 1, length(:begins)) = :begins",
    ],
)
def test_a_statement_that_does_is_found(sql: str) -> None:
    assert MATCHED.search(sql)


def test_the_engine_reads_no_history() -> None:
    """The history is for people too: what the engine goes by is in the row."""
    asked = [
        f"{path}:{node.lineno}"
        for path in sorted((SOURCE / "engine").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "history"
    ]
    assert asked == []
