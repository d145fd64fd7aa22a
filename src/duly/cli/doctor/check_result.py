"""What ``duly doctor`` has found: how bad it is, about what, and what to do."""

from typing import NamedTuple

OK, WARN, FAIL = "ok", "warn", "fail"


class CheckResult(NamedTuple):
    level: str
    subject: str
    found: str
    advice: str | None = None
