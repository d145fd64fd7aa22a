"""Takes a process its free file descriptors, and gives them back: by the limit that the system keeps for it."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

STANDARD = 3
"""Input, output and errors, which every process has open: with this limit, there is no free number below it."""


@contextmanager
def none_free(pid: int = 0) -> Iterator[None]:
    """What a process has open stays open, and it can open nothing more. Without an id, it is this one."""
    with limited(STANDARD, pid):
        yield


@contextmanager
def limited(files: int, pid: int = 0) -> Iterator[None]:
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
