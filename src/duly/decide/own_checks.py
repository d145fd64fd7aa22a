"""Checks that users add for event types with ``@duly.check("invoice.overdue")``. They run beside Duly's own, before
anything is stored, whether a timer, a schedule or a user comes from Python, over HTTP or from an import."""

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Self, TypeVar

from duly.decide.checks import name_problems
from duly.decide.error_text import describe_without_paths
from duly.errors import Invalid, Misuse, Problem
from duly.records.event import Timer

Check = Callable[[Timer], Iterable[Problem | str] | None]
"""A function that yields the problems of a timer. A text is a problem of the payload."""


C = TypeVar("C")


class OwnChecks:
    """The checks of each event type, in the order in which they were added."""

    def __init__(self) -> None:
        self._of: dict[str, list[Check]] = {}

    def add(self, type: str, check: Check) -> None:
        if problems := name_problems("type", type):
            raise Invalid(problems)
        if not callable(check):
            raise Misuse(f"@duly.check({type!r}) must decorate a function, not {check!r:.50}")
        if inspect.iscoroutinefunction(check) or inspect.isasyncgenfunction(check):
            raise Misuse(
                f"the check {_name(check)} of {type!r} is `async def`: write `def`, because a check waits for nothing"
            )
        self._of.setdefault(type, []).append(check)

    def copy(self) -> Self:
        other = type(self)()
        other._of = {type: list(checks) for type, checks in self._of.items()}
        return other

    def __bool__(self) -> bool:
        return bool(self._of)

    def __contains__(self, type: object) -> bool:
        """Whether a type has checks."""
        return type in self._of

    def problems(self, timer: Timer, others: Sequence[Problem] = ()) -> list[Problem]:
        """The problems that all checks of the timer's type find. A check that raises is a problem too, unless the timer
        has *others*: then the check was given what it could not expect."""
        found: list[Problem] = []
        for check in self._of.get(timer.type, ()) if isinstance(timer.type, str) else ():
            try:
                told = check(timer)
                found += [_problem(one, check) for one in ((told,) if isinstance(told, str) else told or ())]
            except Exception as error:
                if not others:
                    found.append(_raised(check, timer.type, error))
        return found


class CheckedChannels(dict[str, C]):
    """The channels of a Duly by name, with the checks of the timers that are sent on them."""

    def __init__(self, channels: dict[str, C], own_checks: OwnChecks) -> None:
        super().__init__(channels)
        self.own_checks = own_checks


def checks_of(channels: Collection[str]) -> OwnChecks | None:
    """The checks that belong to these channels; None if there are none."""
    checks: OwnChecks | None = getattr(channels, "own_checks", None)
    return checks or None


def _problem(told: object, check: Check) -> Problem:
    if isinstance(told, Problem):
        return told
    if isinstance(told, str):
        return Problem("payload", told)
    raise TypeError(f"{_name(check)} yielded {type(told).__name__} instead of a Problem or text")


def _raised(check: Check, type: str, error: Exception) -> Problem:
    return Problem(
        "type",
        f"the check {_name(check)} of {type!r:.60} raised {describe_without_paths(error)}: correct the check, or send "
        "what it expects",
    )


def _name(check: Any) -> str:
    return str(getattr(check, "__qualname__", None) or repr(check))
