"""Delivers an event as the HTTP request that its target describes."""

from typing import Any

import msgspec

from duly.channels.http.payload_format import JSON, TEST_HEADER
from duly.channels.http.sender import OutgoingRequest, Sender
from duly.channels.http.webhook import WAIT_WITHOUT_KEY, timeout_of, unusable
from duly.decide.targets.secrets import SecretKeys
from duly.decide.targets.targets import HTTP, RETRIED_STATUSES, named
from duly.errors import Misuse
from duly.ports import DestinationLookup
from duly.records.event import Event, Outcome, Rejected, Unreachable
from duly.target_secrets import Seal

DEFAULT_METHOD = "POST"
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})  # methods that send the payload by default


class HttpRequest:
    def __init__(self, sender: Sender, destinations: DestinationLookup, keys: SecretKeys) -> None:
        self._sender, self._destinations, self._seal = sender, destinations, Seal(keys)

    async def deliver(self, event: Event) -> Outcome:
        target = event.target
        assert target is not None
        said = target[HTTP]
        if (stored := named(target)) is None:
            return await self._sender.send(request_for(event, said))
        found = (await self._destinations.known(event.tenant, stored[1])).target
        if (problem := unusable(found, HTTP, stored[1])) is not None or found is None:
            return Rejected(problem or "")
        spec = found.spec
        if found.sealed is not None:
            try:
                spec["headers"] = self._seal.open(found.sealed, found.tenant, found.name).headers
            except Misuse as error:  # this worker lacks the key: the event is not at fault
                return Unreachable(str(error), WAIT_WITHOUT_KEY)
        return await self._sender.send(request_for(event, spec | {k: v for k, v in said.items() if k == "body"}))

    async def close(self) -> None:
        await self._sender.close()


def request_for(event: Event, said: dict[str, Any]) -> OutgoingRequest:
    """The request that a target describes. Without a body in *said*, the payload is sent if the method takes a body."""
    method = said.get("method", DEFAULT_METHOD)
    headers = dict(said.get("headers", {}))
    given = {name.lower() for name in headers}
    if "idempotency-key" not in given:
        headers["Idempotency-Key"] = event.id
    if event.is_test:
        headers = {name: value for name, value in headers.items() if name.lower() != TEST_HEADER.lower()}
        headers[TEST_HEADER] = "true"
    body: bytes | None = None
    content_type = JSON
    if "body" not in said:
        body = event.payload_json.encode() if method in WITH_BODY else None
    elif isinstance(said["body"], str):
        body, content_type = said["body"].encode(), "text/plain; charset=utf-8"
    elif said["body"] is not None:
        body = msgspec.json.encode(said["body"])
    if body is not None and "content-type" not in given:
        headers["Content-Type"] = content_type
    retried = frozenset(said["retry_statuses"]) if "retry_statuses" in said else RETRIED_STATUSES
    return OutgoingRequest(method, said["url"], headers, body, timeout_of(said), retried)
