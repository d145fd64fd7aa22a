"""Retry policies: how often and after which back-off a failed event is tried again."""

from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec

from duly.errors import Invalid, Problem
from duly.values.durations import format_duration, parse_duration
from duly.values.numbers import as_whole

SPREAD = 0.25
"""The largest jitter, as a share of the wait, so that events that failed together are not retried together."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential backoff up to a longest wait, *max*; each wait is spread by up to a quarter of it."""

    max_attempts: int = 3
    base: timedelta = timedelta(seconds=30)
    factor: float = 4.0
    max: timedelta = timedelta(hours=1)

    def wait(self, attempt: int, jitter: float) -> timedelta:
        """The wait after the failed *attempt* (the first is 1); *jitter* is random, from [0, 1)."""
        return self.least(attempt) * (1 + SPREAD * jitter)

    def least(self, attempt: int) -> timedelta:
        """The wait after *attempt* without jitter."""
        try:
            return min(self.max, self.base * self.factor ** (attempt - 1))
        except OverflowError:
            return self.max

    def spent(self, attempt: int) -> bool:
        return attempt >= self.max_attempts

    def to_json(self) -> dict[str, Any]:
        return {
            "max_attempts": self.max_attempts,
            "base": format_duration(self.base),
            "factor": self.factor,
            "max": format_duration(self.max),
        }


DEFAULT = Retry()


def retry_text(retry: Retry) -> str | None:
    """The stored form of a policy: None for the default, so that most rows hold no policy."""
    return None if retry is DEFAULT or retry == DEFAULT else msgspec.json.encode(retry.to_json()).decode()


@lru_cache(maxsize=256)
def read_retry(text: str | None) -> Retry:
    """The policy from its stored form. Cached, because a system uses few different policies."""
    return DEFAULT if text is None else parse_retry(msgspec.json.decode(text))


def parse_retry(written: Any) -> Retry:
    """The policy from its JSON form; raises Invalid with the fields and the reasons."""
    if not isinstance(written, dict):
        raise Invalid([Problem("retry", 'expected an object such as {"max_attempts": 3, "base": "30s"}')])
    fields = Retry.__struct_fields__
    values: dict[str, Any] = {}
    problems = [
        Problem(f"retry.{name}", f"unknown; known: {', '.join(fields)}") for name in written if name not in fields
    ]
    for name, value in written.items():
        if name in ("base", "max"):
            try:
                values[name] = parse_duration(value)
            except (ValueError, AttributeError):
                problems.append(Problem(f"retry.{name}", f"{value!r:.50} is not a duration such as 30s"))
        elif name in fields:
            value = as_whole(value) if name == "max_attempts" else value
            if isinstance(value, bool) or not isinstance(value, int if name == "max_attempts" else (int, float)):
                problems.append(Problem(f"retry.{name}", f"expected a number, not {value!r:.50}"))
            values[name] = value
    if problems:
        raise Invalid(problems)
    return Retry(**values)
