"""The limit of files and connections that a process may have open."""

import contextlib
import sys


def raise_file_limit() -> None:
    """Raises the limit to the hard limit. The default, often 1024, exists for programs that use select(), which cannot
    watch more; this program does not use it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # the kernel may have a lower limit: then nothing changes
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
