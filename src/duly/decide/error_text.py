"""Errors as text that every store can hold, even if an error's own message cannot be read."""

import re

LONGEST = 2000
"""Characters of an error that are stored, at most."""

LONGEST_OUTPUT = 64 * 1024
"""Characters of a command's output that are kept with the attempt, at most: the last ones."""

PATH = re.compile(r"(?:(?<![\w./])|(?<=://))/(?:[^\s/'\"(),:;]+/)+[^\s/'\"(),:;]*")
"""An absolute file path of two names or more; the path of a URL does not match."""


def describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    return storable(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def describe_without_paths(error: BaseException) -> str:
    """The error without file paths, for tenants: they see the event, and must not see this machine's files."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return storable(f"{type(error).__name__}: {error.strerror}")
    return PATH.sub("…", describe(error))


def first_line(error: str) -> str:
    """The first line of an error. The lines after it quote the receiver's response, which may repeat a payload."""
    return error.partition("\n")[0]


def storable_output(output: str) -> str:
    """The end of an output, as every store can hold it."""
    return output[-LONGEST_OUTPUT:].replace("\x00", "\ufffd").encode(errors="replace").decode()


def storable(text: object) -> str:
    """The text without characters that PostgreSQL cannot store (NUL, lone surrogates), cut to LONGEST characters."""
    written = text if isinstance(text, str) else repr(text)
    return written[:LONGEST].replace("\x00", "\\0").encode(errors="backslashreplace").decode()
