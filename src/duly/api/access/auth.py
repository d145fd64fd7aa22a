"""Lets requests in: who asks, for which tenant, whether they may, and whether it is not too often."""

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
from duly.records.api_key import ApiKey, Scope, looks_like_a_key

log = logging.getLogger("duly.http")

TENANT = "duly-tenant"
TRUSTED_FOR = 1.0
"""Seconds for which a key that was looked up is not looked up again: so long does a revoked one still work."""

NOTED_EVERY = 60.0
MOST_KEPT = 10_000
GUESSES = 20.0
"""Unknown keys that an address may show in a second; beyond, those of all addresses are looked up together."""

SLOWED = 0.01
SLOWEST = 2.0
"""Seconds that a guess too many waits for its answer, for each one that waits already; and at most."""

BURST = 1.0
"""Seconds' worth of requests that may come at once."""

Authenticate = Callable[[Request], Awaitable[Caller]]


class KeyLookup(NamedTuple):
    """What became of looking a key up: the key, or why it is none."""

    found: ApiKey | Unauthenticated
    at: float


class Authenticator:
    """By API keys. Where there are none yet and *keyless* is said, whoever can reach the port is ``default``, or the
    tenant that it names: that is for people who try things on their own machine."""

    def __init__(self, duly: Duly, *, keyless: bool | str = False, authenticate: Authenticate | None = None) -> None:
        self._duly, self._authenticate = duly, authenticate
        self._keyless = "default" if keyless is True else keyless or None
        self._seen: OrderedDict[str, KeyLookup] = OrderedDict()  # good keys
        self._unknown: OrderedDict[str, KeyLookup] = (
            OrderedDict()
        )  # apart, so that a flood of them displaces no good one
        self._key_lookups = KeyLookups(duly.keys.known)
        self._slowed = 0  # guesses that wait for their answer
        self._noted: OrderedDict[str, float] = OrderedDict()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._guesses: OrderedDict[str, Bucket] = OrderedDict()

    async def admit(self, request: Request, needs: Scope) -> Caller:
        caller = await (self._by_key(request) if self._authenticate is None else self._by_their_own(request))
        if not caller.scope.covers(needs):
            raise Forbidden(f"this needs the scope {needs.value}, and the key has {caller.scope.value}")
        return caller

    async def _by_their_own(self, request: Request) -> Caller:
        """The application's way of telling who asks."""
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
            raise Unauthenticated("expected the header Authorization: Bearer and an API key")
        key = await self._recognise(secret.strip(), request)
        self._take_turn(key)
        request.state.used = key.id
        tenant = _tenant(request, key.tenant, all_tenants=key.all_tenants)
        return Caller(tenant, key.scope, f"key {key.name}", key.id, key.all_tenants)

    async def _without_key(self, request: Request) -> Caller:
        if self._keyless is None or await self._duly.keys.made_any():
            raise Unauthenticated("this needs an API key: send it as Authorization: Bearer …")
        _refuse_other_sites(request)
        refuse_proxies(request)
        if request.headers.get(TENANT, self._keyless) != self._keyless:
            raise Forbidden(
                "only a key for all tenants may name one: make it with `duly keys create NAME --all-tenants`"
            )
        return Caller(self._keyless, Scope.ADMIN)

    async def _recognise(self, secret: str, request: Request) -> ApiKey:
        """Whose key it is. An unknown one is counted before anybody waits for the database, so that many at once are
        counted as well; a good one is given its turn back."""
        now = time.monotonic()
        seen = self._seen.get(secret) or self._unknown.get(secret)
        if seen is not None and now - seen.at <= TRUSTED_FOR:
            found = seen.found
        elif secret in self._seen or not looks_like_a_key(secret):  # was good, or cannot be one and costs nothing
            found = await self._look_up(secret)
        else:
            guessing = _bucket(self._guesses, whose_address(request, self._duly.settings.trusted_proxies), now)
            wait = guessing.take(GUESSES, now)
            if wait and not await self._key_lookups.knows(secret):
                await self._slow_down()
                _refuse_if_too_soon(wait, "unknown keys were shown too often from this address")
            found = await self._look_up(secret)
            if not wait and isinstance(found, ApiKey):
                guessing.give_back(GUESSES)
        if seen is None or seen.found is not found:
            self._keep(secret, KeyLookup(found, now))
        if isinstance(found, Unauthenticated):
            raise Unauthenticated(str(found))
        return found

    async def _slow_down(self) -> None:
        """Who guesses in many loops at once waits the longer the more they are, so that to refuse them takes little."""
        self._slowed += 1
        try:
            await sleep(min(self._slowed * SLOWED, SLOWEST))
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
        if good or looks_like_a_key(secret):  # what cannot be one may be of any length
            kept[secret] = seen
            kept.move_to_end(secret)
            if len(kept) > MOST_KEPT:
                kept.popitem(last=False)

    def was_noted(self, key: str) -> bool:
        """Whether it is known already that a key is in use just now."""
        return time.monotonic() - self._noted.get(key, -NOTED_EVERY) < NOTED_EVERY

    async def note_use(self, key: str) -> None:
        """That a key was used, as well as it can be told: no request fails for it, nor waits."""
        if self.was_noted(key):
            return
        self._noted[key] = time.monotonic()
        self._noted.move_to_end(key)
        while len(self._noted) > MOST_KEPT:
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
    """Theirs, among those that are still needed: a bucket that is full again is as good as a new one."""
    bucket = buckets.setdefault(whose, Bucket())
    buckets.move_to_end(whose)
    while len(buckets) > MOST_KEPT and next(iter(buckets.values())).full(now):
        buckets.popitem(last=False)
    return bucket


def _refuse_if_too_soon(wait: float, told: str) -> None:
    if wait > 0:
        raise RefusedRequest(429, f"{told}: wait {wait:.3g} s", headers={"Retry-After": str(max(1, round(wait + 0.5)))})


class Bucket:
    """How far a rate is used up."""

    def __init__(self) -> None:
        self._spent_until = float("-inf")  # a monotonic clock may have begun a moment ago
        self._burst = BURST

    def take(self, rate: float, now: float) -> float:
        """Seconds to wait; 0 when the turn is taken."""
        wait = self.wait(rate, now)
        if wait == 0:
            self._spent_until = max(self._spent_until, now - self._burst) + 1 / rate
        return wait

    def give_back(self, rate: float) -> None:
        """A turn that was taken and not needed."""
        self._spent_until -= 1 / rate

    def wait(self, rate: float, now: float) -> float:
        """Seconds until a turn could be taken."""
        self._burst = max(BURST, 1 / rate)
        ends = max(self._spent_until, now - self._burst) + 1 / rate
        return ends - now if ends > now + 1e-9 else 0.0

    def full(self, now: float) -> bool:
        """Whether nothing is known any more of what was taken."""
        return self._spent_until <= now - self._burst


_SCOPES = ", ".join(scope.value for scope in Scope)


def _kind(told: object) -> str:
    """What was returned, without what is in it: that may be a secret."""
    return f"one with the scope {told.scope!r:.30}" if isinstance(told, Caller) else type(told).__name__


def _tenant(request: Request, own: str, *, all_tenants: bool) -> str:
    written = request.headers.get(TENANT)
    if written is None:
        return own
    try:
        named = written.encode("latin-1").decode()  # header values are bytes; ours are UTF-8
    except UnicodeDecodeError:
        raise Invalid([Problem("Duly-Tenant", "is not UTF-8")]) from None
    if named == own:
        return named
    if not all_tenants:
        raise Forbidden(
            "only a key for all tenants may name another tenant in Duly-Tenant: make one with `duly keys create NAME "
            "--all-tenants`, or leave the header out"
        )
    if problems := name_problems("tenant", named):
        raise Invalid([problem._replace(path="Duly-Tenant") for problem in problems])
    return named


def _refuse_other_sites(request: Request) -> None:
    """A page that somebody has open in a browser must not reach a server on their machine that asks for no key: neither
    under a name of its own for this address, nor from its own origin."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    if not is_loopback(_name(host)) or (origin is not None and origin.partition("://")[2] != host):
        raise Forbidden("without API keys, only this machine itself is served: make one with `duly keys create`")


def _name(host: str) -> str:
    """Without the port."""
    return host.partition("]")[0] if host.startswith("[") else host.partition(":")[0]
