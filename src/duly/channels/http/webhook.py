"""Delivers an event as a signed webhook, following Standard Webhooks."""

import time
from collections import OrderedDict
from datetime import timedelta
from typing import Any

from duly.channels.http.payload_format import BODY_FORMATS, signed_headers
from duly.channels.http.sender import DEFAULT_TIMEOUT, OutgoingRequest, Sender
from duly.decide.targets.secrets import SecretKeys
from duly.decide.targets.targets import WEBHOOK, named, origin_of
from duly.errors import Misuse
from duly.ports import DestinationLookup
from duly.records.event import Event, Outcome, Rejected, Unreachable
from duly.records.target import Target
from duly.target_secrets import Seal
from duly.values.durations import parse_duration

MOST_DERIVED = 1000
"""Signing keys in the cache, for the origins used last. The cache is bounded because callers choose the origins; a
missing key costs some microseconds to derive."""

WAIT_WITHOUT_KEY = timedelta(seconds=30)
"""The wait of an event whose target this worker cannot decrypt: another worker may have the key."""


class Webhook:
    def __init__(self, sender: Sender, destinations: DestinationLookup, keys: SecretKeys) -> None:
        self._sender, self._destinations, self._keys = sender, destinations, keys
        self._seal = Seal(keys)
        self._derived: OrderedDict[tuple[str, str], list[str]] = OrderedDict()

    async def deliver(self, event: Event) -> Outcome:
        target = event.target
        assert target is not None
        if (stored := named(target)) is None:
            spec = target[WEBHOOK]
            said = {"url": spec} if isinstance(spec, str) else spec
            return await self._sender.send(self._request(event, said, self._usual(event.tenant, said["url"]), {}))
        found = (await self._destinations.known(event.tenant, stored[1])).target
        if (problem := unusable(found, WEBHOOK, stored[1])) is not None or found is None:
            return Rejected(problem or "")
        try:
            sealed = self._seal.open(found.sealed or "", found.tenant, found.name)
        except Misuse as error:  # this worker lacks the key: the event is not at fault
            return Unreachable(str(error), WAIT_WITHOUT_KEY)
        now = time.time()
        secrets = [secret for secret, until in sealed.secrets if until is None or until > now]
        return await self._sender.send(self._request(event, found.spec, secrets, sealed.headers))

    def _request(self, event: Event, said: dict[str, Any], secrets: list[str], more: dict[str, str]) -> OutgoingRequest:
        content_type, write = BODY_FORMATS[said.get("format", "standard")]
        body = write(event)
        headers = {**more, **signed_headers(event, body, secrets, content_type)}
        return OutgoingRequest("POST", said["url"], headers, body, timeout_of(said))

    def _usual(self, tenant: str, url: str) -> list[str]:
        """The signing secrets for a URL that belongs to no stored target."""
        key = (tenant, origin_of(url))
        if key not in self._derived:
            self._derived[key] = self._keys.signing(*key)
            if len(self._derived) > MOST_DERIVED:
                self._derived.popitem(last=False)
        self._derived.move_to_end(key)
        return self._derived[key]

    async def close(self) -> None:
        await self._sender.close()


def unusable(found: Target | None, channel: str, name: str) -> str | None:
    """The reason why a stored target cannot be used, or None."""
    if found is None:
        return f"there is no target {name!r}: create it, then replay this event"
    if found.channel != channel:
        return f"target {name!r} is for {found.channel}, not for {channel}: create a target with another name"
    return None


def timeout_of(said: dict[str, Any]) -> timedelta:
    return parse_duration(said["timeout"]) if "timeout" in said else DEFAULT_TIMEOUT
