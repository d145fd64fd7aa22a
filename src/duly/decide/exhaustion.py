"""Resources that this machine can run out of. Neither the event that meets the shortage nor its receiver is at
fault."""

import errno
from collections.abc import Iterator
from datetime import timedelta

from duly.records.event import Unreachable

RESOURCES = {
    errno.EMFILE: "this worker has no free file descriptor: raise its limit (ulimit -n, LimitNOFILE=)",
    errno.ENFILE: "this machine has no free file descriptor: raise its limit (fs.file-max)",
    errno.ENOMEM: "this machine has no free memory: add memory, or run fewer programs on it",
    errno.ENOSPC: "this machine has no free disk space: free some space",
}
"""For each error number, the missing resource and the remedy."""

WAIT = timedelta(seconds=2)
"""The wait before the next try: a descriptor is soon free again, and each try adds a row to the history."""


class Exhausted(Exception):
    """This machine has run out of a resource. The message names the resource and the remedy."""


def exhausted(error: BaseException) -> str | None:
    """The missing resource and the remedy, if that caused the error: the error itself, or a cause that its traceback
    would show."""
    for one in _reasons(error):
        if isinstance(one, Exhausted):
            return str(one)
        if isinstance(one, OSError) and one.errno in RESOURCES:
            return RESOURCES[one.errno]
    return None


def unreachable(error: BaseException) -> Unreachable | None:
    """The outcome of an attempt that met a shortage; None for every other error."""
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
