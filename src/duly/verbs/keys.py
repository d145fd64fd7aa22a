"""``duly.keys``: API keys: who may call the HTTP API, for which tenant, and with which scope."""

import builtins
import secrets as luck
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from duly.decide.checks import check_id, check_page, name_problems
from duly.decide.error_text import storable
from duly.decide.targets.rates import read_rate
from duly.errors import Conflict, Invalid, Problem, Unauthenticated
from duly.ids import new_id
from duly.ports import KeyStore
from duly.records.api_key import SECRET_BYTES, ApiKey, MadeKey, Scope, hash_of, hint_of, looks_like_a_key, write_key
from duly.values.instants import due_problems, write_instant
from duly.verbs.found import require_found
from duly.verbs.marks import for_doors, reads

A_KEYS = "a key's"
MOST_OF_A_NAME = 10
"""Keys with the same name that the error for an ambiguous name lists."""


SESSION_LIFETIME = timedelta(days=7)
"""How long a session of the dashboard lasts."""


class BegunSession(NamedTuple):
    """A session that has just begun: the secret of its cookie, which is stored nowhere, and its key."""

    token: str
    key: ApiKey


class Keys:
    def __init__(self, store: KeyStore) -> None:
        self._store = store

    async def create(
        self,
        name: str,
        *,
        tenant: str = "default",
        scope: Scope | str = Scope.READ,
        expires: datetime | timedelta | None = None,
        rate: float | str | None = None,
        all_tenants: bool = False,
        by: str = "api",
    ) -> MadeKey:
        """Create a key. Its secret is in this answer and nowhere else: if it is lost, create another key. *expires* is
        an instant, or how long the key is valid; *rate* is how many requests a second it allows, or ``"600/m"``. With
        *all_tenants*, a request may name another tenant than the key's own, and the scope applies there as well."""
        problems = [*name_problems("name", name), *name_problems("tenant", tenant), *_scope_problems(scope)]
        often: float | None = None
        try:
            often = None if rate is None else 1 / read_rate(rate).total_seconds()
        except Invalid as error:
            problems += error.problems
        if expires is not None:
            problems += [problem._replace(path="expires") for problem in due_problems(expires)]
        if all_tenants not in (True, False):
            problems.append(Problem("all_tenants", f"expected true or false, not {all_tenants!r:.50}"))
        if problems:
            raise Invalid(problems)
        secret = write_key(luck.token_bytes(SECRET_BYTES))
        async with self._store.begin() as tx:
            now = await tx.now()
            key = ApiKey(
                id=new_id(),
                tenant=tenant,
                name=name,
                scope=Scope(scope),
                hint=hint_of(secret),
                created=now,
                created_by=storable(by),
                expires=_instant(expires, now),
                rate=often,
                all_tenants=all_tenants,
            )
            await tx.add_key(key, hash_of(secret))
            await tx.note(
                [
                    (
                        key.id,
                        "created",
                        f"{key.scope} for " + (f"all tenants, else {tenant}" if all_tenants else f"tenant {tenant}"),
                    )
                ],
                storable(by),
            )
            stored = await tx.key(key.id)
        return MadeKey(stored or key, secret)

    @reads
    async def get(self, id: str, *, tenant: str | None = None) -> ApiKey:
        id = check_id(id, A_KEYS)
        return require_found("key", await self._store.key(id), id, tenant)

    @reads
    async def list(
        self, *, tenant: str | None = None, limit: int = 100, after: str | None = None
    ) -> builtins.list[ApiKey]:
        """The keys, the newest first, with revoked ones. For the next page, *after* is the last id of this one."""
        check_page(limit)
        before = None if after is None else check_id(after, A_KEYS, "after")
        return await self._store.list_keys(tenant, before=before, limit=limit)

    @reads
    async def named(self, name: str, *, tenant: str | None = None) -> ApiKey:
        """The valid key with this name, if there is exactly one: names need not be unique."""
        possible = not name_problems("name", name)
        found = await self._store.keys_named(tenant, name, limit=MOST_OF_A_NAME) if possible else []
        if len(found) > 1:
            told = ", ".join(f"{key.id} ({key.hint}…, tenant {key.tenant})" for key in found)
            raise Conflict(f"several active keys are named {name!r}: give the id of one: {told}")
        return require_found("active key", found[0] if found else None, f"{name!r:.100}", tenant)

    async def revoke(self, id: str, *, tenant: str | None = None, by: str = "api") -> ApiKey:
        """Revoke a key. Servers that have just used it notice within a second."""
        id = check_id(id, A_KEYS)
        async with self._store.begin() as tx:
            key = require_found("key", await tx.key(id), id, tenant)
            if not await tx.revoke_key(id):
                raise Conflict(f"key {key.name!r} ({key.hint}…) was already revoked")
            await tx.note([(id, "revoked", None)], storable(by))
            return require_found("key", await tx.key(id), id, tenant)

    @reads
    async def recognise(self, secret: str) -> ApiKey:
        """The key with this secret; raises Unauthenticated."""
        found = await self._store.key_by_hash(hash_of(secret)) if looks_like_a_key(secret) else None
        if found is None:
            raise Unauthenticated("this API key is unknown: create one with `duly keys create`")
        return _valid(*found)

    # -- sessions of the dashboard

    @for_doors
    async def begin_session(self, secret: str) -> BegunSession:
        """Begin a session with an API key; raises Unauthenticated. A session has no rights of its own."""
        key = await self.recognise(secret)
        token = luck.token_urlsafe(SECRET_BYTES)
        await self._store.forget_sessions()
        await self._store.begin_session(hash_of(token), key.id, SESSION_LIFETIME)
        return BegunSession(token, key)

    @for_doors
    @reads
    async def of_session(self, token: str) -> ApiKey:
        """The key of a session, as it is now; raises Unauthenticated."""
        found = await self._store.session_key(hash_of(token))
        if found is None:
            raise Unauthenticated("this session has ended: sign in again")
        return _valid(*found)

    @for_doors
    async def end_session(self, token: str) -> None:
        """End a session."""
        await self._store.end_session(hash_of(token))

    # -- their use

    @reads
    async def known(self, secrets: Collection[str]) -> set[str]:
        """The secrets that belong to keys, also to revoked or expired ones."""
        by_hash = {hash_of(secret): secret for secret in secrets if looks_like_a_key(secret)}
        return {by_hash[hash] for hash in await self._store.known_hashes(list(by_hash))} if by_hash else set()

    async def used(self, ids: Sequence[str]) -> None:
        """Record that these keys were used just now."""
        if ids:
            await self._store.use_keys(ids)

    @reads
    async def made_any(self) -> bool:
        """Whether a key was ever created. Revoked keys count: they show that requests are meant to need a key."""
        return await self._store.any_key()


def _valid(key: ApiKey, now: datetime) -> ApiKey:
    if key.revoked is not None:
        raise Unauthenticated(f"the key {key.hint}… was revoked at {write_instant(key.revoked)}: use another one")
    if key.state(now) == "expired" and key.expires is not None:
        raise Unauthenticated(f"the key {key.hint}… expired at {write_instant(key.expires)}: use another one")
    return key


def _scope_problems(scope: Any) -> Iterator[Problem]:
    if not isinstance(scope, str) or scope not in list(Scope):
        yield Problem("scope", f"expected {', '.join(Scope)}, not {scope!r:.50}")


def _instant(expires: datetime | timedelta | None, now: datetime) -> datetime | None:
    if expires is None:
        return None
    instant = now + expires if isinstance(expires, timedelta) else expires.astimezone(UTC)
    if instant <= now:
        raise Invalid([Problem("expires", f"{write_instant(instant)} is not in the future")])
    return instant
