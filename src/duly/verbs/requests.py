"""What was answered to requests that carry a key of their own, so that they may come again."""

from duly.errors import Conflict
from duly.ports import RequestPort, StoredResponse


class Requests:
    """``duly.requests``: for whoever answers them, such as the HTTP API."""

    def __init__(self, store: RequestPort) -> None:
        self._store = store

    async def recall(self, tenant: str, key: str, fingerprint: str) -> StoredResponse | None:
        """What was answered to it; None if it is new. Conflict where the key was used for another request."""
        known = await self._store.recall(tenant, key, fingerprint)
        if known is not None and known.fingerprint != fingerprint:
            raise Conflict(f"the Idempotency-Key {key!r:.60} was used for another request: choose a new one")
        return known

    async def remember(self, tenant: str, key: str, status: int, headers_json: str, body: bytes) -> None:
        """Keep the answer to one that was new, for a day."""
        await self._store.remember(tenant, key, status, headers_json, body)

    async def forget(self, limit: int) -> int:
        """Remove what is older than that, at most so many; how many."""
        return await self._store.forget_requests(limit)
