"""Stored answers to requests with an idempotency key, so that the requests can be repeated."""

from duly.errors import Conflict
from duly.ports import RequestPort, StoredResponse


class Requests:
    """``duly.requests``: for code that answers requests, such as the HTTP API."""

    def __init__(self, store: RequestPort) -> None:
        self._store = store

    async def recall(self, tenant: str, key: str, fingerprint: str) -> StoredResponse | None:
        """The stored answer to a request; None if the request is new. Raises Conflict if the key was used for another
        request."""
        known = await self._store.recall(tenant, key, fingerprint)
        if known is not None and known.fingerprint != fingerprint:
            raise Conflict(f"the Idempotency-Key {key!r:.60} was used for another request: choose a new one")
        return known

    async def stored(self, tenant: str, key: str) -> StoredResponse | None:
        """The stored answer under a key, whatever the request was; None if there is none."""
        return await self._store.stored_response(tenant, key)

    async def remember(self, tenant: str, key: str, status: int, headers_json: str, body: bytes) -> None:
        """Store the answer to a new request, for a day."""
        await self._store.remember(tenant, key, status, headers_json, body)

    async def forget(self, limit: int) -> int:
        """Delete at most *limit* expired answers; return how many were deleted."""
        return await self._store.forget_requests(limit)
