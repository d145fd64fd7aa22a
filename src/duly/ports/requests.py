"""What can be asked of a store for the HTTP API: whose key it is, and what was answered."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple, Protocol

from duly.ports.transactions import Clocked, Notes
from duly.records.api_key import ApiKey


class KeyPort(Protocol):
    """What can be asked of a store about keys of the API."""

    async def add_key(self, key: ApiKey, hash: str) -> None: ...

    async def key(self, id: str) -> ApiKey | None: ...

    async def known_hashes(self, hashes: Sequence[str]) -> set[str]:
        """Those of them that are of keys, whether these are still good or not."""

    async def key_by_hash(self, hash: str) -> tuple[ApiKey, datetime] | None:
        """A key, whatever its state, and the store's clock."""

    async def list_keys(self, tenant: str | None, *, before: str | None, limit: int) -> list[ApiKey]:
        """Those of a tenant, or of all, the newest first, older than the id *before*."""

    async def keys_named(self, tenant: str | None, name: str, *, limit: int) -> list[ApiKey]:
        """Those with this name that are neither revoked nor expired."""

    async def revoke_key(self, id: str) -> bool:
        """False if it was revoked before."""

    async def use_keys(self, ids: Sequence[str]) -> None:
        """They were used just now."""

    async def any_key(self) -> bool:
        """Whether one was ever made."""


class StoredResponse(NamedTuple):
    """What was answered to a request, and what the request was."""

    fingerprint: str
    status: int
    headers: str  # JSON
    body: bytes


class RequestPort(Protocol):
    """What can be asked of a store about requests that carry a key of their own, so that they may come again."""

    async def recall(self, tenant: str, key: str, fingerprint: str) -> StoredResponse | None:
        """What was answered to it. None: it is new, and this transaction has it now. Whoever else has it is waited for:
        if they commit, their answer is what is remembered, and else it is new."""

    async def remember(self, tenant: str, key: str, status: int, headers_json: str, body: bytes) -> None:
        """Keep the answer to a request that this transaction has, for a day."""

    async def forget_requests(self, limit: int) -> int:
        """Remove what is older than that, at most so many; how many."""


class KeyTransaction(KeyPort, Notes, Clocked, Protocol):
    """One transaction about keys of the API."""


class KeyStore(KeyTransaction, Protocol):
    """A store as the verbs of keys see it."""

    def begin(self) -> AbstractAsyncContextManager[KeyTransaction]: ...
