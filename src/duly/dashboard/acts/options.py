"""Options of the command line, as pages print them."""

from collections.abc import Sequence


def option(name: str, value: str | None) -> Sequence[str]:
    """An option with its value; none without one. A value that looks like an option is joined to it."""
    if not value:
        return ()
    flag = f"--{name.replace('_', '-')}"
    return (f"{flag}={value}",) if value.startswith("-") else (flag, value)
