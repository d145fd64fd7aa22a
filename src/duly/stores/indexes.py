"""The indexes that the migrations of a dialect leave, with the statements that create them."""

import re
from collections.abc import Mapping
from functools import lru_cache

from duly.stores.migrations import migrations

_COMMENT = re.compile(r"--.*")
_ACT = re.compile(
    r"CREATE (?P<unique>UNIQUE )?INDEX (?P<made>\w+) (?P<rest>ON [^;]+)|DROP INDEX (?:duly\.)?(?P<dropped>\w+)"
    r"|ALTER INDEX (?:duly\.)?(?P<old>\w+) RENAME TO (?P<new>\w+)|DROP TABLE (?:duly\.)?(?P<table>\w+)"
)


@lru_cache
def indexes(dialect: str) -> Mapping[str, str]:
    """The statements by the names of their indexes; those of primary keys and constraints are not among them."""
    found: dict[str, str] = {}
    for migration in migrations(dialect):
        for act in _ACT.finditer(_COMMENT.sub("", migration.sql)):
            if act["made"]:
                unique, rest = act["unique"] or "", " ".join(act["rest"].split())
                found[act["made"]] = f"CREATE {unique}INDEX {act['made']} {rest}"
            elif act["dropped"]:
                found.pop(act["dropped"], None)
            elif act["new"] and act["old"] in found:
                found[act["new"]] = found.pop(act["old"]).replace(act["old"], act["new"], 1)
            elif act["table"]:
                found = {name: sql for name, sql in found.items() if not re.search(rf"ON {act['table']}\b", sql)}
    return found
