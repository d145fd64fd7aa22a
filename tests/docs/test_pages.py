"""What the pages say about the code is what the code says, and every link leads somewhere."""

import ast
import re
from datetime import time, timedelta
from itertools import chain
from pathlib import Path
from typing import get_args

import pytest

import duly
from duly import Status
from duly.cli import commands
from duly.config import _CHOICES, _NUMBERS, _SPANS, Settings
from duly.decide.lifecycle import TRANSITIONS
from duly.decide.series.due_head import Drop
from duly.decide.series.why_not import Kind as WhyNotKind
from duly.decide.targets.rates import show_rate
from duly.observers.metrics.families import FAMILIES, Kind
from duly.observers.metrics.http import HttpMetrics
from duly.signals import PassEnded
from duly.values.durations import format_duration
from tests.docs.blocks import PAGES, ROOT

OTHER_PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert not lost


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"\b((?:src|tests|docs|benchmarks|requirements|examples)/[\w./-]*[\w/])", text)
    assert not [name for name in named if not (ROOT / name).exists() and not (page.parent / name).exists()]


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs/adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    decisions = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    assert [path.name for path in decisions if f"({path.name})" not in index] == []
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text(encoding="utf-8")
        assert all(f"## {part}\n" in text for part in ("Context", "Decision", "Consequences")), path.name


def test_the_settings_table_has_each_setting_with_its_default() -> None:
    rows = {cells[0]: cells[1:] for cells in table("docs/operations.md", "Settings")}
    fields = Settings.__struct_fields__
    assert list(rows) == [f"DULY_{name.upper()}" for name in fields]
    defaults = Settings()
    for name in fields:
        default, allowed, _ = rows[f"DULY_{name.upper()}"]
        value = getattr(defaults, name)
        written = format_duration(value) if isinstance(value, timedelta) else str(value) if value else "–"
        written = value.isoformat("minutes") if isinstance(value, time) else written
        written = show_rate(value) if name.endswith("_rate") else written
        assert default == written, name
        if name in _SPANS:
            assert allowed == " to ".join(format_duration(limit) for limit in _SPANS[name]), name
        elif name in _NUMBERS:
            assert allowed == " to ".join(str(limit) for limit in _NUMBERS[name]), name
        elif name in _CHOICES:
            assert allowed == ", ".join(_CHOICES[name]), name


def test_the_table_of_acts_is_the_lifecycle() -> None:
    written = {
        act: (frozenset(Status(status) for status in before.split(", ")), Status(after))
        for act, before, after, _ in table("docs/states.md", "State transitions")
    }
    assert written == dict(TRANSITIONS)


def test_the_table_of_statuses_has_them_all() -> None:
    assert [cells[0] for cells in table("docs/states.md", "States")] == [status.value for status in Status]


def test_the_table_of_why_a_schedule_did_not_run_has_every_kind() -> None:
    told = [kind for cells in table("docs/schedules.md", "Why it did not run then") for kind in cells[0].split(", ")]
    assert sorted(told) == sorted(get_args(WhyNotKind))


PLACES = {"tx.change": 1, "Verdict": 1, "_change": 2, "_dropped": 3, "note_act": 2, "Reshaped": 2, "Dropped": 2}
"""Where calls have the act that they write."""


def test_the_table_of_the_history_has_every_word_that_the_code_writes() -> None:
    """The words stand in the queries, in what `judge` and `decide` return, and in what engine and verbs pass on."""
    source = Path(duly.__file__).parent
    written, of_users = {Drop("", 1, None).act}, {"created"}  # a user's row tells of that itself
    of_schedules, of_targets, of_keys = set[str](), set[str](), set[str]()
    subjects = {"schedule.id": of_schedules, "one.user.id": of_users, "user": of_users, "user.id": of_users}
    for queries in source.glob("stores/*/sql/*.sql"):
        written |= set(re.findall(r"SELECT [\w.]+, (?:\{now\}|:now), '([a-z ]+)'", queries.read_text(encoding="utf-8")))
    acting = (*source.glob("engine/**/*.py"), *source.glob("verbs/**/*.py"))
    for module in (
        source / "decide/lifecycle.py",
        source / "decide/series/due_head.py",
        source / "decide/series/successor.py",
        *acting,
    ):
        for call in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = ast.unparse(call.func)
            if module.name in ("targets.py", "target_tests.py", "circuit_breaker.py", "keys.py"):
                (of_keys if module.name == "keys.py" else of_targets).update(acts_of_targets(call, name))
                continue
            places = {
                "tx.change": 1,
                "Verdict": 1,
                "_change": 2,
                "_dropped": 3,
                "note_act": 2,
                "Reshaped": 2,
                "Dropped": 2,
            }
            place = places.get(name)
            if place is not None and len(call.args) > place and isinstance(call.args[place], ast.Constant):
                (of_schedules if name == "note_act" else written).add(ast.literal_eval(call.args[place]))
            if name in ("tx.note", "notes.append", "tx.drop"):
                for row in (row for row in ast.walk(call) if isinstance(row, ast.Tuple) and len(row.elts) > 2):
                    about = subjects.get(ast.unparse(row.elts[0]), written)
                    about |= {ast.literal_eval(row.elts[1])} if isinstance(row.elts[1], ast.Constant) else set()
    of_users.add("halted")  # by the query `note_halted`, which is about users alone
    of_schedules.add("halted")  # by the engine, by their ids
    assert written - {"halted"} == {cells[0] for cells in table("docs/states.md", "History (audit log)")}
    assert of_schedules == {cells[0] for cells in table("docs/states.md", "The history of a schedule")}
    assert of_users == {cells[0] for cells in table("docs/states.md", "The history of a user")}
    assert of_targets == {cells[0] for cells in table("docs/states.md", "The history of a target")}
    assert of_keys == {cells[0] for cells in table("docs/states.md", "The history of a key")}


def acts_of_targets(call: ast.Call, name: str) -> set[str]:
    if name == "note":
        return {str(node.value) for node in ast.walk(call.args[3]) if isinstance(node, ast.Constant)}
    rows = (
        [row for row in ast.walk(call) if isinstance(row, ast.Tuple)] if name in ("tx.note", "self._store.note") else []
    )
    said = [node for row in rows for node in ast.walk(row.elts[1]) if isinstance(node, ast.Constant)]
    return {node.value for node in said if isinstance(node.value, str)}


def test_the_table_of_log_lines_has_what_should_be_watched() -> None:
    documented = set(
        chain.from_iterable(cells[0].split(", ") for cells in table("docs/operations.md", "Monitoring: what to watch"))
    )
    source = Path(duly.__file__).parent
    code = "".join(
        (source / path).read_text(encoding="utf-8")
        for path in (
            "observers/logs.py", "observers/metrics/gauges.py", "engine/settle.py",
            "channels/brokers/nats_streams.py", "timer_service/service.py",
            "channels/http/sender.py",
            "api/access/preparation.py", "api/server/acceptor.py", "api/server/connections.py",
        )
    )  # fmt: skip
    subjects = (
        "api|channel|clock|commands?|connections|event|handler|intake|metrics|"
        "schedule|settle|store|stream|target|type|worker"
    )
    made = set(re.findall(rf"\"((?:{subjects})\.\w+)[\" ]", code)) - {"timer.commands", "timer.events"}
    assert made - {"event.completed"} == documented


def test_the_table_of_figures_has_every_field_of_a_pass() -> None:
    rows = table("docs/operations.md", "Metrics of a worker pass")
    documented = list(chain.from_iterable(cells[0].split(", ") for cells in rows))
    assert documented == [*PassEnded.__struct_fields__, "recovery"]


def test_the_tables_of_metrics_have_every_metric_with_its_labels() -> None:
    lines = (ROOT / "docs/metrics.md").read_text(encoding="utf-8").replace("`", "").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    documented = {cells[0]: cells[1] for cells in rows if cells[0].startswith(("duly_", "timer_"))}
    http = HttpMetrics()
    http.request_answered("GET", "/", 200, 0.1)
    exported = {
        f"{name}_total" if family.kind is Kind.COUNTER else name: family.labels for name, family in FAMILIES.items()
    }
    exported |= {
        "duly_http_requests_total": ("method", "route", "status"),
        "duly_http_request_seconds": ("method", "route"),
    }
    assert documented == {name: ", ".join(labels) or "–" for name, labels in exported.items()}
    assert {one.name for one in http.registry.collect()} == {"duly_http_requests", "duly_http_request_seconds"}


def test_the_guide_names_every_command() -> None:
    text = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    known = [name for name in commands if not name.startswith("-")]
    assert known
    assert not [name for name in known if f"`duly {name}" not in text]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, without its head; code marks are dropped."""
    text = (ROOT / page).read_text(encoding="utf-8")
    after = re.split(rf"^#+ {re.escape(heading)}$", text, maxsplit=1, flags=re.MULTILINE)[1]
    lines = after[after.index("\n|") + 1 :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def test_the_files_and_functions_of_the_reading_page_exist() -> None:
    """Each row names a file and what to read in it; a dozen stops, and few enough files to keep in mind."""
    rows = table("docs/reading.md", "Reading the code")
    files = [row[1].strip("`") for row in rows]
    assert (len([row for row in rows if row[0]]), len(set(files))) == (12, 14)
    for file, row in zip(files, rows, strict=True):
        text = (ROOT / file).read_text(encoding="utf-8")
        for name in re.findall(r"\w+", row[2]):
            assert re.search(rf"def {name}\b|-- name: {name}\b", text), f"{file} has no {name}"


def test_the_files_and_names_of_the_worked_changes_exist() -> None:
    text = (ROOT / "docs/reading.md").read_text(encoding="utf-8").split("## Worked changes")[1]
    found = re.findall(r"`([\w/*]+\.(?:pyi?|sql|md|toml))`(?: \(([^)]*)\))?", text)
    assert len(found) > 100
    for path, names in found:
        files = list((ROOT / "src/duly").glob(path)) or list(ROOT.glob(path)) or list((ROOT / "src").rglob(path))
        assert files, f"there is no {path}"
        for name in re.findall(r"`(\w+)(?:\.(\w+))?`", names):
            words = [word for word in name if word]
            assert any(all(re.search(rf"\b{word}\b", file.read_text()) for word in words) for file in files), (
                f"{path} has no {'.'.join(words)}"
            )
