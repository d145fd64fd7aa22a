"""The store as the HTTP API needs it: API keys, and stored responses to requests with an idempotency key."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from duly.ports.transactions import Clocked, Notes
from duly.records.api_key import ApiKey


class KeyPort(Protocol):
    """Creates, finds and revokes API keys."""

    async def add_key(self, key: ApiKey, hash: str) -> None: ...

    async def key(self, id: str) -> ApiKey | None: ...

    async def known_hashes(self, hashes: Sequence[str]) -> set[str]:
        """The hashes that belong to API keys, including revoked and expired keys."""

    async def key_by_hash(self, hash: str) -> tuple[ApiKey, datetime] | None:
        """An API key in any state, and the store's clock."""

    async def list_keys(self, tenant: str | None, *, before: str | None, limit: int) -> list[ApiKey]:
        """The API keys of a tenant, or of all tenants, newest first, with ids less than *before*."""

    async def keys_named(self, tenant: str | None, name: str, *, limit: int) -> list[ApiKey]:
        """The API keys with this name that are neither revoked nor expired."""

    async def revoke_key(self, id: str) -> bool:
        """Revokes an API key; returns False if it was already revoked."""

    async def use_keys(self, ids: Sequence[str]) -> None:
        """Records that these API keys were used just now."""

    async def begin_session(self, hash: str, key: str, lifetime: timedelta) -> None:
        """Stores a session of the dashboard, for an API key."""

    async def session_key(self, hash: str) -> tuple[ApiKey, datetime] | None:
        """The API key, in any state, of a session that has neither ended nor expired, and the store's clock."""

    async def end_session(self, hash: str) -> bool:
        """Ends a session; returns False if there was none."""

    async def forget_sessions(self) -> int:
        """Deletes expired sessions; returns their number."""

    async def any_key(self) -> bool:
        """Whether an API key was ever created."""


class StoredResponse(NamedTuple):
    """The response to a request, and the fingerprint of that request."""

    fingerprint: str
    status: int
    headers: str  # JSON
    body: bytes


class RequestPort(Protocol):
    """Stores the responses to requests that carry an idempotency key, so that a client may repeat them."""

    async def recall(self, tenant: str, key: str, fingerprint: str) -> StoredResponse | None:
        """The stored response to a request. None: the request is new, and this transaction now owns its key. If another
        transaction owns the key, this call waits for it: if that one commits, its response is returned, otherwise the
        request is new."""

    async def stored_response(self, tenant: str, key: str) -> StoredResponse | None:
        """The stored response to the request with this key; None if there is none. It waits for nobody."""

    async def remember(self, tenant: str, key: str, status: int, headers_json: str, body: bytes) -> None:
        """Stores the response to a request whose key this transaction owns, for a day."""

    async def forget_requests(self, limit: int) -> int:
        """Deletes responses that are older than a day, at most *limit*; returns their number."""


class KeyTransaction(KeyPort, Notes, Clocked, Protocol):
    """One transaction about API keys."""


class KeyStore(KeyTransaction, Protocol):
    """A store as the verbs of API keys see it."""

    def begin(self) -> AbstractAsyncContextManager[KeyTransaction]: ...
