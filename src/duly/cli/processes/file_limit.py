"""How many files and connections a process may have open."""

import contextlib
import sys


def raise_file_limit() -> None:
    """To the most that the system allows. What it gives at first, often 1024, is meant for programs that use select(),
    which cannot watch more; this one does not use it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # where the kernel has a lower limit, it stays as it was
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
