"""What this machine itself can run out of. An event that meets it is not at fault, and neither is its receiver."""

import errno
from collections.abc import Iterator
from datetime import timedelta

from duly.records.event import Unreachable

RESOURCES = {
    errno.EMFILE: "this worker has no free file descriptor: raise its limit (ulimit -n, LimitNOFILE=)",
    errno.ENFILE: "this machine has no free file descriptor: raise its limit (fs.file-max)",
    errno.ENOMEM: "this machine has no free memory: give it more, or run less on it",
    errno.ENOSPC: "this machine has no free space on a disk: make some",
}
"""What there is none of, and what to do about it."""

WAIT = timedelta(seconds=2)
"""Until the next try: a descriptor is soon free again, and each try is a row of the history."""


class Exhausted(Exception):
    """This machine has run out of something. The message says of what, and what to do about it."""


def exhausted(error: BaseException) -> str | None:
    """What there is none of, if that is why: by the error itself, or by what its traceback would show as the reason."""
    for one in _reasons(error):
        if isinstance(one, Exhausted):
            return str(one)
        if isinstance(one, OSError) and one.errno in RESOURCES:
            return RESOURCES[one.errno]
    return None


def unreachable(error: BaseException) -> Unreachable | None:
    """What such an error means for the event that met it; None for every other error."""
    return None if (lack := exhausted(error)) is None else Unreachable(lack, WAIT)


def _reasons(error: BaseException) -> Iterator[BaseException]:
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left.append(one.__cause__ if one.__suppress_context__ else one.__context__)
        if isinstance(one, BaseExceptionGroup):
            left.extend(one.exceptions)
