"""Authenticates requests: finds the caller and the tenant, checks the scope, and applies the rate limits."""

import logging
import time
from asyncio import sleep
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request

from duly.api.access.key_lookups import KeyLookups
from duly.api.protocol.problems import RefusedRequest
from duly.api.protocol.request import Caller
from duly.api.server.proxies import refuse_proxies, whose_address
from duly.decide.checks import name_problems
from duly.decide.targets.addresses import is_loopback
from duly.duly import Duly
from duly.errors import DulyError, Forbidden, Invalid, Misuse, Problem, Unauthenticated
from duly.observers.logs import Line
from duly.records.api_key import ApiKey, Scope, hash_of, looks_like_a_key
from duly.verbs.keys import BegunSession

log = logging.getLogger("duly.http")

TENANT_HEADER = "duly-tenant"
KEY_CACHED_FOR_S = 1.0
"""Seconds for which a looked-up key is cached: a revoked key still works for that long."""

USE_RECORDED_EVERY_S = 60.0
"""Seconds between two records of a key's use, so that not every request writes to the database."""

MOST_CACHED = 10_000
"""Entries of each cache: of keys, and of token buckets. Limits their memory under a flood of different callers."""

UNKNOWN_KEYS_PER_SECOND = 20.0
"""Unknown keys that an address may send in a second; above that, unknown keys of all addresses are looked up in
batches."""

GUESS_DELAY_S = 0.01
"""Seconds that a refused guess waits for its answer, for each guess that is waiting."""

LONGEST_GUESS_DELAY_S = 2.0
"""Seconds that a refused guess waits for its answer at most."""

BURST_S = 1.0
"""Seconds of a rate's requests that may arrive at once."""

Authenticate = Callable[[Request], Awaitable[Caller]]


class KeyLookup(NamedTuple):
    """The result of looking a key up: the key, or the error that refuses it."""

    found: ApiKey | Unauthenticated
    at: float


class Authenticator:
    """Authenticates callers by API key. While no key exists and *keyless* is set, every caller that reaches the port is
    the tenant ``default``, or the tenant that *keyless* names: for people who try Duly on their own machine."""

    def __init__(self, duly: Duly, *, keyless: bool | str = False, authenticate: Authenticate | None = None) -> None:
        self._duly, self._authenticate = duly, authenticate
        self._keyless = "default" if keyless is True else keyless or None
        self._seen: OrderedDict[str, KeyLookup] = OrderedDict()  # good keys
        self._unknown: OrderedDict[str, KeyLookup] = (
            OrderedDict()
        )  # separate, so that a flood of unknown keys evicts no good key
        self._sessions: OrderedDict[str, KeyLookup] = OrderedDict()  # of the dashboard, by their hashes
        self._key_lookups = KeyLookups(duly.keys.known)
        self._slowed = 0  # guesses that are waiting for their answer
        self._noted: OrderedDict[str, float] = OrderedDict()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._guesses: OrderedDict[str, Bucket] = OrderedDict()

    async def admit(self, request: Request, needs: Scope) -> Caller:
        caller = await (self._by_key(request) if self._authenticate is None else self._by_their_own(request))
        if not caller.scope.covers(needs):
            raise Forbidden(
                f"this request needs the scope {needs.value}, but the key has the scope {caller.scope.value}"
            )
        return caller

    async def admit_to_all_tenants(self, request: Request) -> None:
        """Admits callers who may see figures of all tenants together: with a key for all tenants, or, while no key
        exists and *keyless* is set, without one."""
        caller = await self.admit(request, Scope.READ)
        keyless = self._authenticate is None and caller.key is None
        if not (caller.all_tenants is True or keyless):
            raise Forbidden(
                "metrics are those of all tenants together, and need a key for all tenants: create one with `duly keys "
                "create NAME --scope read --all-tenants`"
            )

    async def admit_visitor(self, request: Request, session: str | None, tenant: str | None) -> Caller:
        """The visitor of the dashboard: by a session, which is worth what its key is worth now; by the application's
        own ``authenticate``; or without a key, while none exists and *keyless* is set. *tenant*: to which a visitor
        with a key for all tenants has switched."""
        if self._authenticate is not None:
            return await self._by_their_own(request)
        if session is None:
            return await self._without_key(request)
        key = await self._of_session(session)
        self._take_turn(key)
        request.state.used = key.id
        own = tenant if tenant is not None and key.all_tenants and not name_problems("tenant", tenant) else key.tenant
        return Caller(own, key.scope, f"key {key.name}", key.id, key.all_tenants)

    async def sign_in(self, request: Request, secret: str) -> BegunSession:
        """Begins a session with an API key. Guesses are slowed down as those of requests are."""
        await self._recognise(secret, request)
        return await self._duly.keys.begin_session(secret)

    async def sign_out(self, session: str) -> None:
        """Ends a session."""
        self._sessions.pop(hash_of(session), None)
        await self._duly.keys.end_session(session)

    async def _of_session(self, session: str) -> ApiKey:
        now, hashed = time.monotonic(), hash_of(session)
        seen = self._sessions.get(hashed)
        if seen is not None and now - seen.at <= KEY_CACHED_FOR_S and isinstance(seen.found, ApiKey):
            return seen.found
        self._sessions.pop(hashed, None)
        found = await self._duly.keys.of_session(session)
        self._sessions[hashed] = KeyLookup(found, now)
        if len(self._sessions) > MOST_CACHED:
            self._sessions.popitem(last=False)
        return found

    @property
    def identifies_by_itself(self) -> bool:
        """Whether the application identifies callers by its own means, so that nobody signs in here."""
        return self._authenticate is not None

    async def _by_their_own(self, request: Request) -> Caller:
        """The caller, as the application's own ``authenticate`` identifies them."""
        assert self._authenticate is not None
        told = await self._authenticate(request)
        if not isinstance(told, Caller) or not isinstance(told.scope, str) or told.scope not in tuple(Scope):
            raise Misuse(
                f"authenticate= must return duly.api.Caller(tenant, scope, name, all_tenants=…) with a scope of "
                f"{_SCOPES}, or raise Unauthenticated; it returned {_kind(told)}"
            )
        caller = told._replace(scope=Scope(told.scope))
        return caller._replace(tenant=_tenant(request, caller.tenant, all_tenants=caller.all_tenants is True))

    async def _by_key(self, request: Request) -> Caller:
        written = request.headers.get("authorization")
        if written is None:
            return await self._without_key(request)
        scheme, _, secret = written.partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise Unauthenticated("expected the header Authorization: Bearer followed by an API key")
        key = await self._recognise(secret.strip(), request)
        self._take_turn(key)
        request.state.used = key.id
        tenant = _tenant(request, key.tenant, all_tenants=key.all_tenants)
        return Caller(tenant, key.scope, f"key {key.name}", key.id, key.all_tenants)

    async def _without_key(self, request: Request) -> Caller:
        if self._keyless is None or await self._duly.keys.made_any():
            raise Unauthenticated("this request needs an API key: send it in the header Authorization: Bearer …")
        _refuse_other_sites(request)
        refuse_proxies(request)
        if request.headers.get(TENANT_HEADER, self._keyless) != self._keyless:
            raise Forbidden(
                "only a key for all tenants may name a tenant: create one with `duly keys create NAME --all-tenants`"
            )
        return Caller(self._keyless, Scope.ADMIN)

    async def _recognise(self, secret: str, request: Request) -> ApiKey:
        """The API key with this secret; raises Unauthenticated. An unknown key uses up a token of its address before
        the database is asked, so that parallel guesses are counted as well; a good key gets its token back."""
        now = time.monotonic()
        seen = self._seen.get(secret) or self._unknown.get(secret)
        if seen is not None and now - seen.at <= KEY_CACHED_FOR_S:
            found = seen.found
        elif secret in self._seen or not looks_like_a_key(secret):  # was good before, or is refused without a query
            found = await self._look_up(secret)
        else:
            guessing = _bucket(self._guesses, whose_address(request, self._duly.settings.trusted_proxies), now)
            wait = guessing.take(UNKNOWN_KEYS_PER_SECOND, now)
            if wait and not await self._key_lookups.knows(secret):
                await self._slow_down()
                _refuse_if_too_soon(wait, "too many requests with unknown keys came from this address")
            found = await self._look_up(secret)
            if not wait and isinstance(found, ApiKey):
                guessing.give_back(UNKNOWN_KEYS_PER_SECOND)
        if seen is None or seen.found is not found:
            self._keep(secret, KeyLookup(found, now))
        if isinstance(found, Unauthenticated):
            raise Unauthenticated(str(found))
        return found

    async def _slow_down(self) -> None:
        """Delays the refusal of a guess: the more guesses are waiting, the longer, so that parallel guessing costs the
        server little."""
        self._slowed += 1
        try:
            await sleep(min(self._slowed * GUESS_DELAY_S, LONGEST_GUESS_DELAY_S))
        finally:
            self._slowed -= 1

    async def _look_up(self, secret: str) -> ApiKey | Unauthenticated:
        try:
            return await self._duly.keys.recognise(secret)
        except Unauthenticated as error:
            return error

    def _keep(self, secret: str, seen: KeyLookup) -> None:
        good = isinstance(seen.found, ApiKey)
        kept, other = (self._seen, self._unknown) if good else (self._unknown, self._seen)
        other.pop(secret, None)
        if good or looks_like_a_key(secret):  # a string that cannot be a key may have any length
            kept[secret] = seen
            kept.move_to_end(secret)
            if len(kept) > MOST_CACHED:
                kept.popitem(last=False)

    def was_noted(self, key: str) -> bool:
        """Whether the use of a key was recorded within the last USE_RECORDED_EVERY_S."""
        return time.monotonic() - self._noted.get(key, -USE_RECORDED_EVERY_S) < USE_RECORDED_EVERY_S

    async def note_use(self, key: str) -> None:
        """Records that a key was used. Best effort: no request waits for it, or fails because of it."""
        if self.was_noted(key):
            return
        self._noted[key] = time.monotonic()
        self._noted.move_to_end(key)
        while len(self._noted) > MOST_CACHED:
            self._noted.popitem(last=False)
        try:
            await self._duly.keys.used([key])
        except DulyError as error:
            log.warning(Line("key.use_not_noted", {"key": key, "error": str(error)}))

    def _take_turn(self, key: ApiKey) -> None:
        now = time.monotonic()
        rate = key.rate or self._duly.settings.api_rate
        wait = _bucket(self._buckets, key.id, now).take(rate, now)
        _refuse_if_too_soon(wait, f"more than {rate:g} requests a second with this key")


def _bucket(buckets: "OrderedDict[str, Bucket]", whose: str, now: float) -> "Bucket":
    """The token bucket of an address or key. Evicts old buckets that are full again: a full bucket is the same as a new
    one."""
    bucket = buckets.setdefault(whose, Bucket())
    buckets.move_to_end(whose)
    while len(buckets) > MOST_CACHED and next(iter(buckets.values())).full(now):
        buckets.popitem(last=False)
    return bucket


def _refuse_if_too_soon(wait: float, told: str) -> None:
    if wait > 0:
        raise RefusedRequest(429, f"{told}: wait {wait:.3g} s", headers={"Retry-After": str(max(1, round(wait + 0.5)))})


class Bucket:
    """A token bucket: how much of a rate has been used."""

    def __init__(self) -> None:
        self._spent_until = float("-inf")  # a monotonic clock may start near 0
        self._burst = BURST_S

    def take(self, rate: float, now: float) -> float:
        """Takes a token and returns 0; if none is left, returns the seconds to wait."""
        wait = self.wait(rate, now)
        if wait == 0:
            self._spent_until = max(self._spent_until, now - self._burst) + 1 / rate
        return wait

    def give_back(self, rate: float) -> None:
        """Returns a token that was not needed after all."""
        self._spent_until -= 1 / rate

    def wait(self, rate: float, now: float) -> float:
        """Seconds until a token is available."""
        self._burst = max(BURST_S, 1 / rate)
        ends = max(self._spent_until, now - self._burst) + 1 / rate
        return ends - now if ends > now + 1e-9 else 0.0

    def full(self, now: float) -> bool:
        """Whether all tokens are back, so that the bucket holds no information."""
        return self._spent_until <= now - self._burst


_SCOPES = ", ".join(scope.value for scope in Scope)


def _kind(told: object) -> str:
    """The type or scope of a returned value, without its contents, which may be a secret."""
    return f"one with the scope {told.scope!r:.30}" if isinstance(told, Caller) else type(told).__name__


def _tenant(request: Request, own: str, *, all_tenants: bool) -> str:
    written = request.headers.get(TENANT_HEADER)
    if written is None:
        return own
    try:
        named = written.encode("latin-1").decode()  # Starlette decodes header bytes as Latin-1; ours are UTF-8
    except UnicodeDecodeError:
        raise Invalid([Problem("Duly-Tenant", "is not UTF-8")]) from None
    if named == own:
        return named
    if not all_tenants:
        raise Forbidden(
            "only a key for all tenants may name another tenant in Duly-Tenant: create one with `duly keys "
            "create NAME --all-tenants`, or remove the header"
        )
    if problems := name_problems("tenant", named):
        raise Invalid([problem._replace(path="Duly-Tenant") for problem in problems])
    return named


def _refuse_other_sites(request: Request) -> None:
    """Refuses requests from web pages of other sites. Without API keys, a page open in a browser on the same machine
    could otherwise reach this server: through a DNS name of its own that points here, or as a cross-origin request."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    if not is_loopback(_name(host)) or (origin is not None and origin.partition("://")[2] != host):
        raise Forbidden(
            "until there is an API key, only requests from this machine are served: create a "
            "key with `duly keys create`"
        )


def _name(host: str) -> str:
    """The host name without the port."""
    return host.partition("]")[0] if host.startswith("[") else host.partition(":")[0]
