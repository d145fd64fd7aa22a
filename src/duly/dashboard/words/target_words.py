"""Where the events of a schedule go, in words."""

from typing import Any

from duly.decide.targets.commands import is_command
from duly.decide.targets.targets import HTTP, named, shown, url_of


def target_in_words(target: dict[str, Any] | None, type: str) -> str:
    """A target as people say it; the address without its query, which may have secrets."""
    if target is None:
        return f"a Python handler of {type}"
    if is_command(target):
        return "a command, where a worker runs with --commands"
    if (stored := named(target)) is not None:
        return f"the stored target {stored[1]}"
    if (url := url_of(target)) is not None:
        if HTTP in target:
            return f"HTTP {target[HTTP].get('method', 'POST')} {shown(url)}"
        return f"webhook {shown(url)}"
    [channel] = target
    return str(channel)
