"""Errors as one line of text that every store can keep, even of an error that cannot describe itself."""

LONGEST = 2000


def describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    return storable(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def first_line(error: str) -> str:
    """The fact itself. What follows is what the other side had to say, which may repeat a payload."""
    return error.partition("\n")[0]


def storable(text: object) -> str:
    """Without what PostgreSQL's text cannot hold (NUL, lone surrogates), and not endless."""
    written = text if isinstance(text, str) else repr(text)
    return written[:LONGEST].replace("\x00", "\\0").encode(errors="backslashreplace").decode()
