"""Reports every problem of a request at once: those found while it was read, and those that a verb finds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from duly.api.protocol.problems import RENAMED
from duly.errors import DulyError, Invalid, Problem


@contextmanager
def gathered(problems: list[Problem]) -> Iterator[None]:
    """Collects the problems of an Invalid raised inside into *problems*, and continues."""
    try:
        yield
    except Invalid as error:
        problems += error.problems


@contextmanager
def together(problems: Sequence[Problem], renamed: Mapping[str, str] = RENAMED) -> Iterator[None]:
    """Raises Invalid with the known *problems* and those that the code inside finds. With known problems, the code
    inside only runs to find more: it ends in Invalid, and so the request's transaction is rolled back. *renamed* maps a
    verb's names of fields to those in JSON. Where a field has a known problem, the verb's own is left out."""
    try:
        yield
    except Invalid as error:
        known = {problem.path for problem in problems}
        found = [problem._replace(path=renamed.get(problem.path, problem.path)) for problem in error.problems]
        raise Invalid([*problems, *(problem for problem in found if problem.path not in known)]) from None
    except DulyError:
        if not problems:
            raise
    if problems:
        raise Invalid(problems)
