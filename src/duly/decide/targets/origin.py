"""The origin of a target: code with access to the database, or a request over HTTP. The command line and the timer
service count as code."""

from collections.abc import Collection, Iterator
from typing import Any

from duly.decide.targets.broker_allow import BrokerAllow
from duly.decide.targets.brokers import WORDS, spelled_out
from duly.errors import Problem

OVER_HTTP = "http"
"""The stored origin of targets that came over HTTP. NULL stands for code, which has full access to the database
anyway."""


# No abstract base class: with one, isinstance takes 175 ns instead of 45.
class HttpOrigin:
    """The channels that a target in a request of one tenant may name, with the broker addresses open to that tenant."""

    via = OVER_HTTP  # the stored origin of targets that are checked with these channels

    def __init__(self, names: Collection[str], allow: BrokerAllow, tenant: str) -> None:
        self.names, self._allow, self._tenant = names, allow, tenant
        self.own_checks = getattr(names, "own_checks", None)  # what users have added, for all doors alike

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def problems(self, target: dict[str, Any] | None) -> Iterator[Problem]:
        """The broker addresses in a valid target that are closed to the tenant."""
        for channel, spec in (target or {}).items():
            if channel in WORDS:
                yield from self._allow.problems(self._tenant, channel, spelled_out(channel, spec))


def via_of(channels: Collection[str]) -> str | None:
    """The stored origin of targets that are checked with these channels."""
    return OVER_HTTP if isinstance(channels, HttpOrigin) else None


def closed(via: str | None, target: Any, channels: Collection[str]) -> list[Problem]:
    """The broker addresses in a stored target from HTTP that are no longer open to the request that wants to send
    it."""
    if via is None or not isinstance(channels, HttpOrigin) or not isinstance(target, dict):
        return []
    return list(channels.problems(target))


def door_of(via: str | None, channels: Collection[str]) -> Collection[str]:
    """The channels to check an existing target with: a target put by code stays valid when a request changes other
    fields."""
    return channels.names if via is None and isinstance(channels, HttpOrigin) else channels
