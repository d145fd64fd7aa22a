"""A finding of ``duly doctor``: its severity, its subject, and what to do."""

from typing import NamedTuple

OK = "ok"
WARN = "warn"
FAIL = "fail"


class CheckResult(NamedTuple):
    level: str
    subject: str
    found: str
    advice: str | None = None
    sql: tuple[str, ...] = ()  # for an administrator
    fix: str | None = None  # what `duly doctor --fix` does about it: see fixes.py
