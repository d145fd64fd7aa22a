"""Through which door something comes: by code that has the database, or over HTTP. The command line and the timer
service are code."""

from collections.abc import Collection, Iterator
from typing import Any

from duly.decide.targets.broker_allow import BrokerAllow
from duly.decide.targets.brokers import WORDS, spelled_out
from duly.errors import Problem

OVER_HTTP = "http"
"""What is stored of that. Nothing stands for code, which may do what the database lets it do anyway."""


# No base class: to ask whether something is an instance of an abstract one takes 175 ns instead of 45.
class HttpOrigin:
    """The channels that a target may name, as a request of one tenant has them: of brokers, what is open to it."""

    via = OVER_HTTP  # what is stored of whatever is checked with these channels

    def __init__(self, names: Collection[str], allow: BrokerAllow, tenant: str) -> None:
        self.names, self._allow, self._tenant = names, allow, tenant

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def problems(self, target: dict[str, Any] | None) -> Iterator[Problem]:
        """What a sound target names that is closed."""
        for channel, spec in (target or {}).items():
            if channel in WORDS:
                yield from self._allow.problems(self._tenant, channel, spelled_out(channel, spec))


def via_of(channels: Collection[str]) -> str | None:
    """How it comes what is checked with these channels."""
    return OVER_HTTP if isinstance(channels, HttpOrigin) else None


def closed(via: str | None, target: Any, channels: Collection[str]) -> list[Problem]:
    """What of a stored target that came over HTTP is not open any more to the request that wants it sent."""
    if via is None or not isinstance(channels, HttpOrigin) or not isinstance(target, dict):
        return []
    return list(channels.problems(target))


def door_of(via: str | None, channels: Collection[str]) -> Collection[str]:
    """The channels for what is there already: what code has put may stay, whoever changes something beside it."""
    return channels.names if via is None and isinstance(channels, HttpOrigin) else channels
