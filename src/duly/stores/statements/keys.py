"""The statements about API keys, and about stored responses of the API."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from duly.ports import StoredResponse
from duly.records.api_key import ApiKey
from duly.stores.columns.lists import ADD_KEY
from duly.stores.columns.readers import EPOCH
from duly.stores.query_base import LAST_ID, QueryBase

RESPONSE_LIFETIME = timedelta(hours=24)
"""How long a response to a request with an idempotency key is stored."""


class KeyQueries(QueryBase):
    async def add_key(self, key: ApiKey, hash: str) -> None:
        await self.ask("add_key", self.batch(ADD_KEY, [key], hash=[hash]))

    async def key(self, id: str) -> ApiKey | None:
        rows = await self.ask("key", id=id)
        return self.readers.api_key.read(rows[0]) if rows else None

    async def key_by_hash(self, hash: str) -> tuple[ApiKey, datetime] | None:
        return self._key_and_now(await self.ask("key_by_hash", hash=hash))

    def _key_and_now(self, rows: Sequence[Any]) -> tuple[ApiKey, datetime] | None:
        if not rows:
            return None
        [micros] = self.readers.api_key.rest(rows[0])
        return self.readers.api_key.read(rows[0]), EPOCH + timedelta(microseconds=micros)

    async def known_hashes(self, hashes: Sequence[str]) -> set[str]:
        return {row[0] for row in await self.ask("known_hashes", hashes=self.listed(hashes))}

    async def list_keys(self, tenant: str | None, *, before: str | None, limit: int) -> list[ApiKey]:
        rows = await self.ask("list_keys", tenant=tenant, before=before or LAST_ID, limit=limit)
        return [self.readers.api_key.read(row) for row in rows]

    async def keys_named(self, tenant: str | None, name: str, *, limit: int) -> list[ApiKey]:
        return [
            self.readers.api_key.read(row)
            for row in await self.ask("keys_named", tenant=tenant, key_name=name, limit=limit)
        ]

    async def revoke_key(self, id: str) -> bool:
        return bool(await self.ask("revoke_key", id=id))

    async def use_keys(self, ids: Sequence[str]) -> None:
        await self.ask("use_keys", ids=self.listed(sorted(ids)))

    async def begin_session(self, hash: str, key: str, lifetime: timedelta) -> None:
        await self.ask("begin_session", hash=hash, key=key, lifetime=self.span(lifetime))

    async def session_key(self, hash: str) -> tuple[ApiKey, datetime] | None:
        return self._key_and_now(await self.ask("session_key", hash=hash))

    async def end_session(self, hash: str) -> bool:
        return bool(await self.ask("end_session", hash=hash))

    async def forget_sessions(self) -> int:
        return len(await self.ask("forget_sessions"))

    async def any_key(self) -> bool:
        [row] = await self.ask("any_key")
        return bool(row[0])


class RequestQueries(QueryBase):
    async def recall(self, tenant: str, key: str, fingerprint: str) -> StoredResponse | None:
        [row] = await self.ask(
            "recall", tenant=tenant, key=key, fingerprint=fingerprint, memory=self.span(RESPONSE_LIFETIME)
        )
        return None if row[1] is None else StoredResponse(*row)

    async def stored_response(self, tenant: str, key: str) -> StoredResponse | None:
        rows = await self.ask("stored_response", tenant=tenant, key=key, memory=self.span(RESPONSE_LIFETIME))
        return StoredResponse(*rows[0]) if rows else None

    async def remember(self, tenant: str, key: str, status: int, headers_json: str, body: bytes) -> None:
        await self.ask("remember", tenant=tenant, key=key, status=status, headers=headers_json, body=body)

    async def forget_requests(self, limit: int) -> int:
        return len(await self.ask("forget_requests", limit=limit, memory=self.span(RESPONSE_LIFETIME)))
