"""Errors as one line of text that every store can keep, even of an error that cannot describe itself."""

import re

LONGEST = 2000

PATH = re.compile(r"(?:(?<![\w./])|(?<=://))/(?:[^\s/'\"(),:;]+/)+[^\s/'\"(),:;]*")
"""An absolute path of two names or more; not that of a URL."""


def describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    return storable(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def describe_without_paths(error: BaseException) -> str:
    """For people who see the event and not this machine: where it has its files is not theirs to know."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return storable(f"{type(error).__name__}: {error.strerror}")
    return PATH.sub("…", describe(error))


def first_line(error: str) -> str:
    """The fact itself. What follows is what the other side had to say, which may repeat a payload."""
    return error.partition("\n")[0]


def storable(text: object) -> str:
    """Without what PostgreSQL's text cannot hold (NUL, lone surrogates), and not endless."""
    written = text if isinstance(text, str) else repr(text)
    return written[:LONGEST].replace("\x00", "\\0").encode(errors="backslashreplace").decode()
