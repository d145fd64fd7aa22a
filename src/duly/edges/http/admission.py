"""Lets requests in: who asks, for which tenant, whether they may, and whether it is not too often."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request

from duly.core.addresses import is_loopback
from duly.core.checks import name_problems
from duly.core.keys import ApiKey, Scope
from duly.edges.http.asking import Caller
from duly.edges.http.problems import Refused
from duly.errors import Forbidden, Invalid, Problem, Unauthenticated
from duly.wiring import Duly

TENANT = "duly-tenant"
TRUSTED_FOR = 1.0
"""Seconds for which a key that was looked up is not looked up again: so long does a revoked one still work."""

NOTED_EVERY = 60.0
MOST_KEPT = 10_000
BURST = 1.0
"""Seconds' worth of requests that may come at once."""

PROXIES = frozenset(
    ["forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "x-original-host"]
)
"""Headers of those that pass requests on, beside all that begin with X-Forwarded-."""

Authenticate = Callable[[Request], Awaitable[Caller]]


class Seen(NamedTuple):
    key: ApiKey
    at: float


class Admission:
    """By API keys. Where there are none yet and *keyless* is said, whoever can reach the port is ``default``, or the
    tenant that it names: that is for people who try things on their own machine."""

    def __init__(self, duly: Duly, *, keyless: bool | str = False, authenticate: Authenticate | None = None) -> None:
        self._duly, self._authenticate = duly, authenticate
        self._keyless = "default" if keyless is True else keyless or None
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._noted: dict[str, float] = {}
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    async def admit(self, request: Request, needs: Scope) -> Caller:
        caller = await (self._authenticate or self._by_key)(request)
        if not caller.scope.covers(needs):
            raise Forbidden(f"this needs the scope {needs.value}, and the key has {caller.scope.value}")
        return caller

    async def _by_key(self, request: Request) -> Caller:
        written = request.headers.get("authorization")
        if written is None:
            return await self._without_key(request)
        scheme, _, secret = written.partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise Unauthenticated("expected the header Authorization: Bearer and an API key")
        key = await self._recognise(secret.strip())
        self._take_turn(key)
        await self._note(key)
        return Caller(_tenant(request, key), key.scope, f"key {key.name}", key.id)

    async def _without_key(self, request: Request) -> Caller:
        if self._keyless is None or await self._duly.keys.made_any():
            raise Unauthenticated("this needs an API key: send it as Authorization: Bearer …")
        _refuse_other_sites(request)
        _refuse_proxies(request)
        if request.headers.get(TENANT, self._keyless) != self._keyless:
            raise Forbidden("only an admin key may name a tenant: make one with `duly keys create`")
        return Caller(self._keyless, Scope.ADMIN)

    async def _recognise(self, secret: str) -> ApiKey:
        now = time.monotonic()
        seen = self._seen.get(secret)
        if seen is None or now - seen.at > TRUSTED_FOR:
            self._seen.pop(secret, None)
            seen = self._seen[secret] = Seen(await self._duly.keys.recognise(secret), now)
            if len(self._seen) > MOST_KEPT:
                self._seen.popitem(last=False)
        return seen.key

    async def _note(self, key: ApiKey) -> None:
        now = time.monotonic()
        if now - self._noted.get(key.id, -NOTED_EVERY) >= NOTED_EVERY:
            self._noted[key.id] = now
            await self._duly.keys.used([key.id])

    def _take_turn(self, key: ApiKey) -> None:
        rate = key.rate or self._duly.settings.api_rate
        bucket = self._buckets.get(key.id)
        if bucket is None:
            bucket = self._buckets[key.id] = Bucket()
            if len(self._buckets) > MOST_KEPT:
                self._buckets.popitem(last=False)
        if (wait := bucket.take(rate, time.monotonic())) > 0:
            told = f"more than {rate:g} requests a second with this key: wait {wait:.3g} s"
            raise Refused(429, told, headers={"Retry-After": str(max(1, round(wait + 0.5)))})


class Bucket:
    """How far a rate is used up."""

    def __init__(self) -> None:
        self._spent_until = 0.0

    def take(self, rate: float, now: float) -> float:
        """Seconds to wait; 0 when the turn is taken."""
        begins = max(self._spent_until, now - max(BURST, 1 / rate))
        ends = begins + 1 / rate
        if ends > now + 1e-9:
            return ends - now
        self._spent_until = ends
        return 0.0


def _tenant(request: Request, key: ApiKey) -> str:
    written = request.headers.get(TENANT)
    if written is None:
        return key.tenant
    try:
        named = written.encode("latin-1").decode()  # header values are bytes; ours are UTF-8
    except UnicodeDecodeError:
        raise Invalid([Problem("Duly-Tenant", "is not UTF-8")]) from None
    if named == key.tenant:
        return named
    if not key.scope.covers(Scope.ADMIN):
        raise Forbidden("only an admin key may name another tenant in Duly-Tenant")
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


def _refuse_proxies(request: Request) -> None:
    """What comes through a proxy on this machine may come from anywhere."""
    through = next((name for name in request.headers if name in PROXIES or name.startswith("x-forwarded-")), None)
    if through is not None:
        raise Forbidden(
            f"the header {through.title()} says that this came through a proxy, and without API keys only this machine "
            "itself is served: make one with `duly keys create`, and send it as Authorization: Bearer …"
        )


def _name(host: str) -> str:
    """Without the port."""
    return host.partition("]")[0] if host.startswith("[") else host.partition(":")[0]
