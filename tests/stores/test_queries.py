import re
from importlib.resources import files
from pathlib import Path

import pytest

from duly.stores.migrations import migrations
from duly.stores.queries import INVARIANTS, Query, load, names_in

DIALECTS = ("sqlite", "postgres")


def test_both_dialects_have_the_same_queries() -> None:
    assert set(load("sqlite")) == set(load("postgres"))


def test_both_dialects_have_the_same_migrations() -> None:
    names = [[(migration.version, migration.name) for migration in migrations(dialect)] for dialect in DIALECTS]
    assert names[0] == names[1]
    assert [version for version, _ in names[0]] == list(range(1, len(names[0]) + 1))


def test_every_query_is_used() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in Path(str(files("duly.stores"))).rglob("*.py"))
    run = set(re.findall(r"""(?:ask|statement|_in_batches)\(\s*"(\w+)"|load\(self.dialect\)\["(\w+)"\]""", code))
    invariants = set(names_in(INVARIANTS, "postgres"))  # which are run one after the other
    assert set(load("postgres")) == {one or other for one, other in run} | invariants


WRITTEN_LATER = {"where", "order", "beyond", "up_to"}
"""What is written into a query when it is asked: a spec, and one of two orders."""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_query_has_an_unexpanded_fragment(dialect: str) -> None:
    left = {name: set(re.findall(r"\{(\w+)\}", query.sql)) for name, query in load(dialect).items()}
    assert {name for name, found in left.items() if found == {"where"}} == {
        "find",
        "page_bound",
        "find_dead",
        "count_dead",
        "count_events",
        "count_users",
        "count_waiting",
        "estimate_events",
        "estimate_users",
        "list_users",
        "list_users_of",
        "lanes_of",
        "event_kinds",
        "shown_schedules",
        "walk_schedules",
        "free_schedules",
        "schedule_kinds",
        "count_schedules",
        "estimate_schedules",
    }
    assert {name for name, found in left.items() if "order" in found} == {"waiting", "waiting_bound"}
    assert not [name for name, found in left.items() if not found <= WRITTEN_LATER]


def test_parameters_are_told_from_casts_and_times() -> None:
    query = Query("q", "SELECT :one::text, 'YYYY:MI', :two_words, :one WHERE a::int > 0", reads=True)
    assert query.parameters == ("one", "two_words")
    assert query.numbered() == "SELECT $1::text, 'YYYY:MI', $2, $1 WHERE a::int > 0"
    assert query.named() == "SELECT %(one)s::text, 'YYYY:MI', %(two_words)s, %(one)s WHERE a::int > 0"


def test_a_percent_sign_survives_drivers_that_use_it_for_parameters() -> None:
    assert Query("q", "SELECT 7 % :n", reads=True).named() == "SELECT 7 %% %(n)s"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_query_has_a_name_of_its_own(dialect: str) -> None:
    folder = Path(str(files("duly.stores") / dialect / "sql"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.sql"))
    names = re.findall(r"^-- name: (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names)) == len(load(dialect))
