"""All that is wrong with a request, told at once: what is known already, and what a verb finds beside it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from duly.api.protocol.problems import RENAMED
from duly.errors import DulyError, Invalid, Problem


@contextmanager
def gathered(problems: list[Problem]) -> Iterator[None]:
    """What is wrong within is added to the others, and it goes on."""
    try:
        yield
    except Invalid as error:
        problems += error.problems


@contextmanager
def together(problems: Sequence[Problem], renamed: Mapping[str, str] = RENAMED) -> Iterator[None]:
    """Where there are problems already, what is done within is done only to hear what else is wrong: it ends in
    Invalid, and so the request's transaction undoes it. *renamed* is what a verb calls otherwise than JSON does; of
    what is known to be wrong, a verb's own opinion is left out."""
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
