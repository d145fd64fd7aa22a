"""The origin of a target: code with access to the database, or a request over HTTP. The command line and the timer
service count as code."""

from collections.abc import Collection, Iterator
from typing import Any

from duly.decide.targets.broker_allow import BrokerAllow
from duly.decide.targets.brokers import WORDS, spelled_out
from duly.decide.targets.command_allow import NO_COMMANDS, CommandAllow
from duly.decide.targets.commands import COMMAND, is_command
from duly.decide.targets.commands import spelled_out as command_spelled_out
from duly.errors import Forbidden, Problem

OVER_HTTP = "http"
"""The stored origin of targets that came over HTTP. NULL stands for code, which has full access to the database
anyway."""


# No abstract base class: with one, isinstance takes 175 ns instead of 45.
class HttpOrigin:
    """The channels that a target in a request of one tenant may name, with the broker addresses that are open to that
    tenant, and the commands that are open to its key."""

    via = OVER_HTTP  # the stored origin of targets that are checked with these channels

    def __init__(
        self, names: Collection[str], allow: BrokerAllow, tenant: str, commands: CommandAllow = NO_COMMANDS
    ) -> None:
        self.names, self._allow, self._tenant, self.commands = names, allow, tenant, commands
        self.own_checks = getattr(names, "own_checks", None)  # what users have added, for all doors alike

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def problems(self, target: dict[str, Any] | None) -> Iterator[Problem]:
        """The broker addresses and commands in a valid target that are closed to the caller."""
        for channel, spec in (target or {}).items():
            if channel in WORDS:
                yield from self._allow.problems(self._tenant, channel, spelled_out(channel, spec))
            elif channel == COMMAND:
                yield from self.commands.problems(command_spelled_out(spec))


def via_of(channels: Collection[str]) -> str | None:
    """The stored origin of targets that are checked with these channels."""
    return OVER_HTTP if isinstance(channels, HttpOrigin) else None


def closed(via: str | None, target: Any, channels: Collection[str]) -> list[Problem]:
    """The broker addresses and commands in a stored target from HTTP that are no longer open to the request that wants
    to send it."""
    if via is None or not isinstance(channels, HttpOrigin) or not isinstance(target, dict):
        return []
    return list(channels.problems(target))


def door_of(via: str | None, channels: Collection[str]) -> Collection[str]:
    """The channels to check an existing target with: a target put by code stays valid when a request changes other
    fields."""
    return channels.names if via is None and isinstance(channels, HttpOrigin) else channels


# -- commands that exist: code may do everything with them, requests may not


def starts_no_command(target: Any, channels: Collection[str]) -> bool:
    """Whether a target runs a command that this request may not start."""
    return isinstance(channels, HttpOrigin) and not channels.commands.starts and is_command(target)


START = "start it at a time of its own choice"


def refuse_act(target: Any, channels: Collection[str], what: str, act: str = START) -> None:
    """Raises Forbidden if *what* runs a command, and a request may not do this with it."""
    if starts_no_command(target, channels):
        raise Forbidden(f"{what} runs a command: over HTTP, only an admin key may {act}")


def refuse_edit(old_via: str | None, old_target: Any, new_via: str | None, what: str) -> None:
    """Raises Forbidden if *what* runs a command that code made, and a request wants to change it."""
    if old_via is None and new_via is not None and is_command(old_target):
        raise Forbidden(
            f"{what} runs a command, and was made in Python or on the command line: over HTTP, nothing of it can be "
            "changed, and it starts only with its own payload"
        )
