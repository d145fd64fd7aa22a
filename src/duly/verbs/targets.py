"""``duly.targets``: stored targets, limits of destinations, and parked destinations."""

import builtins
import secrets as luck
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from duly.decide.checks import MOST_LISTED, check_page, name_problems, write_json
from duly.decide.error_text import storable
from duly.decide.targets.rates import read_rate, show_rate
from duly.decide.targets.secrets import SecretKeys, secret_problem, written
from duly.decide.targets.targets import (
    HTTP,
    KNOWN,
    SAID,
    WEBHOOK,
    header_problems,
    listed_statuses,
    origin_of,
    parked_as,
    request_problems,
    shown,
    target_name_problems,
    url_problems,
    whose_events,
)
from duly.engine.destinations.parking import note, open_again
from duly.engine.destinations.target_tester import TargetTester
from duly.errors import Conflict, Invalid, Problem, Unsealed
from duly.ids import new_id
from duly.ports import PAGE_BYTES, ListPage, TargetStore, TargetTransaction, page_of
from duly.records.history import Entry
from duly.records.target import DESTINATION_OF_ALL, Known, Resealed, Target
from duly.signals import Signals
from duly.target_secrets import Seal, Sealed
from duly.values.durations import format_duration, parse_duration
from duly.values.instants import write_instant
from duly.verbs.found import require_found
from duly.verbs.marks import for_doors, reads
from duly.verbs.target_tests import TargetTests
from duly.verbs.transactions import no_transaction

MOST_SECRETS = 5
"""Secrets that sign at once; a rotation drops the oldest above that."""

MOST_CONCURRENCY = 10_000
"""Events at once from each worker that a limit may allow: as many as DULY_CONCURRENCY may."""

EVENTS_EXAMINED = 100_000
"""Events, those due next, that are checked before a target is deleted: that takes 0.02 to 0.05 s."""

OLD_SECRET_KEPT_FOR = timedelta(days=1)
"""How long the old secret of a target still signs beside the new one."""

LONGEST_KEPT = timedelta(days=365)
"""How long a caller may ask for an old secret to be kept."""

DISABLED = "is disabled"


Forget = Callable[[str, str], None]
"""Called with a tenant and a destination when this process's cached state of that destination is outdated."""


class Targets(TargetTests):
    """``duly.targets``. *forget* is called when an act has changed a destination; if the store is a single transaction,
    it must wait for the commit. *most* is how many events an act may release itself: workers release the rest.
    *channels* are those that tests may name, and *tester* sends them."""

    def __init__(
        self,
        store: TargetStore,
        forget: Forget,
        keys: SecretKeys,
        signals: Signals,
        most: int | None = None,
        via: str | None = None,
        transaction_of: Callable[[Any], TargetStore | None] = no_transaction,
        channels: Collection[str] = (),
        tester: TargetTester | None = None,
    ) -> None:
        self._channels, self._tester = channels, tester
        self._store, self._forget, self._keys, self._signals, self._most = store, forget, keys, signals, most
        self._via, self._transaction_of = via, transaction_of
        self._seal = Seal(keys)

    # -- stored targets

    async def put(
        self,
        name: str,
        url: str,
        *,
        channel: str = WEBHOOK,
        method: str | None = None,
        headers: Mapping[str, str] | None = None,
        format: str | None = None,
        timeout: timedelta | str | None = None,
        retry_statuses: Collection[int] | None = None,
        secret: str | None = None,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
    ) -> Target:
        """Store a target, or replace it. A webhook's target has a secret, which is generated unless one is given; it is
        in the answer to the call that generated it, and never shown again. An existing target keeps its secret and the
        values of its headers unless others are given. *retry_statuses*, of a target for http, are the only statuses
        that are retried."""
        span = format_duration(timeout) if isinstance(timeout, timedelta) else timeout
        said: dict[str, Any] = {"url": url, "method": method, "format": format, "timeout": span}
        said["retry_statuses"] = listed_statuses(retry_statuses)
        spec = {key: value for key, value in said.items() if value is not None}
        if problems := list(_problems(name, tenant, channel, spec, headers, secret)):
            raise Invalid(problems)
        if "retry_statuses" in spec:
            spec["retry_statuses"] = [int(status) for status in spec["retry_statuses"]]  # JSON may say 404.0
        async with self._within(transaction)._store.begin() as tx:
            old = await tx.target(tenant, name)
            keeps = (channel == WEBHOOK and secret is None) or (headers is None and old and "headers" in old.spec)
            sealed = self._open(old) if old is not None and keeps else Sealed(tenant, name)
            made = secret
            if secret is not None:
                sealed = msgspec.structs.replace(sealed, secrets=[(secret, None)])
            elif channel == WEBHOOK and not sealed.secrets:
                made = written(luck.token_bytes(32))
                sealed = msgspec.structs.replace(sealed, secrets=[(made, None)])
            if headers is not None:
                sealed = msgspec.structs.replace(sealed, headers=dict(headers))
            if sealed.headers:
                spec["headers"] = sorted(sealed.headers)
            target = Target(
                id=new_id() if old is None else old.id,
                tenant=tenant,
                name=name,
                channel=channel,
                spec_json=str(write_json(spec, "target")),
                sealed=self._seal.close(sealed) if sealed.secrets or sealed.headers else None,
                via=self._via,
            )
            if not await tx.put_target(target):
                raise Conflict(f"another request has just created the target {name!r}: try again")
            await tx.note([(target.id, "created" if old is None else "changed", shown(url))], storable(by))
            stored = await self._stored(tx, tenant, name, made if made != secret or old is None else None)
        self._forget(tenant, name)
        return msgspec.structs.replace(stored, new=old is None)

    async def rotate(
        self,
        name: str,
        *,
        secret: str | None = None,
        keep: timedelta | str = OLD_SECRET_KEPT_FOR,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
    ) -> Target:
        """Give a webhook's target a new secret. Until *keep* has passed, the old secret signs as well, so that the
        receiver can switch to the new one without a gap. If *secret* is the newest already, nothing changes."""
        wrong = None if secret is None else secret_problem("secret", secret)
        span = _span("keep", keep, [] if wrong is None else [wrong])
        made = secret or written(luck.token_bytes(32))
        async with self._within(transaction)._store.begin() as tx:
            old = await self._found(tx, name, tenant)
            if old.channel != WEBHOOK:
                raise Conflict(
                    f"target {name!r} sends HTTP requests without a signature and has no secret to rotate: "
                    "change its headers instead"
                )
            sealed = self._open(old)
            if sealed.secrets and sealed.secrets[0] == (made, None):  # repeated: old secrets keep their expiry
                return msgspec.structs.replace(old, secret=made)
            now = time.time()
            ends = now + span.total_seconds()
            kept = [(one, min(ends, until or ends)) for one, until in sealed.secrets if until is None or until > now]
            anew = msgspec.structs.replace(sealed, secrets=[(made, None), *kept][:MOST_SECRETS])
            await tx.put_target(msgspec.structs.replace(old, sealed=self._seal.close(anew)))
            until_when = write_instant(datetime.fromtimestamp(ends, UTC).replace(microsecond=0))
            await tx.note([(old.id, "rotated", f"the old secret is used as well until {until_when}")], storable(by))
            stored = await self._stored(tx, tenant, name, made)
        self._forget(tenant, name)
        return stored

    async def reseal(self, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> Resealed:
        """Encrypt the secrets of targets with the first key of DULY_SECRET_KEY where an older key encrypted them, so
        that the older key can be removed. Each target is a transaction of its own; an interrupted call is continued by
        the next."""
        here = self._within(transaction)
        resealed, unchanged, closed = 0, 0, []
        last = ("", "")
        while page := await here._store.list_targets(tenant, after=last, limit=MOST_LISTED):
            last = (page[-1].tenant, page[-1].name)
            for target in page:
                if target.sealed is None:
                    continue
                try:
                    done = await here._reseal(target, by)
                except Unsealed:
                    if not self._keys:
                        raise
                    closed.append((target.tenant, target.name))
                else:
                    resealed += done
                    unchanged += not done
        return Resealed(resealed, unchanged, closed)

    async def _reseal(self, listed: Target, by: str) -> bool:
        """Encrypts the secrets of one target again; returns whether that was necessary."""
        async with self._store.begin() as tx:
            target = await tx.target(listed.tenant, listed.name)
            if target is None or target.sealed is None:  # deleted meanwhile
                return False
            sealed = self._open(target)
            if self._seal.is_of_first_key(target.sealed):
                return False
            await tx.put_target(msgspec.structs.replace(target, sealed=self._seal.close(sealed)))
            await tx.note([(target.id, "resealed", None)], storable(by))
        self._forget(target.tenant, target.name)
        return True

    async def get(self, name: str, *, tenant: str = "default") -> Target:
        async with self._store.begin() as tx:
            return await self._found(tx, name, tenant)

    @reads
    async def list(
        self, *, tenant: str | None = None, after: tuple[str, str] = ("", ""), limit: int = MOST_LISTED
    ) -> builtins.list[Target]:
        """The targets, in the order of tenant and name. For the next page, *after* is the tenant and name of the last
        target."""
        check_page(limit)
        return await self._store.list_targets(tenant, after=after, limit=limit)

    @for_doors
    @reads
    async def page(self, *, tenant: str = "default", limit: int = 100, after: str | None = None) -> ListPage[Target]:
        """A page of targets, in the order of names, limited in bytes as well. For the next page, *after* is the last
        name of this one."""
        check_page(limit)
        last = (tenant, after or "")
        return page_of(await self._store.list_targets(tenant, after=last, limit=limit + 1, within=PAGE_BYTES), limit)

    async def delete(
        self, name: str, *, force: bool = False, tenant: str = "default", transaction: Any = None, by: str = "api"
    ) -> Target:
        """Delete a target. Refused while events wait for it, unless with *force*: then they become dead letters when
        they are due. Events held for it are released first, in separate transactions: a call that is interrupted leaves
        a target that can be deleted again."""
        store = self._within(transaction)._store
        async with store.begin() as tx:
            found = await self._found(tx, name, tenant)
            if not force and (many := await tx.aimed_at(found, EVENTS_EXAMINED)):
                raise Conflict(_in_use(name, many))
            await tx.unpark(tenant, name)
        await open_again(store, tenant, name, storable(by))
        async with store.begin() as tx:
            found = await self._found(tx, name, tenant)
            await tx.note([(found.id, "deleted", None)], storable(by))
            await tx.delete_target(tenant, name)
        self._forget(tenant, name)
        return found

    async def history(self, name: str, *, tenant: str = "default") -> builtins.list[Entry]:
        found = await self.get(name, tenant=tenant)
        return await self._store.history(found.id)

    # -- destinations: targets by name, and origins or URLs of others

    async def disable(
        self,
        destination: str,
        *,
        tenant: str = "default",
        reason: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> None:
        """Send nothing to a destination until it is enabled: its events are held."""
        here = self._within(transaction)
        key = await here._key(destination, tenant)
        why = DISABLED if reason is None else f"{DISABLED}: {storable(reason)}"
        async with here._store.begin() as tx:
            await tx.unpark(tenant, key)
            await tx.park(tenant, key, why, None)
            await note(tx, tenant, key, "disabled", reason, by)
        self._forget(tenant, key)

    async def enable(
        self, destination: str, *, tenant: str = "default", transaction: Any = None, by: str = "api"
    ) -> int:
        """Send to a destination again, whatever it was parked for; return how many events were waiting for it."""
        here = self._within(transaction)
        key = await here._key(destination, tenant)
        async with here._store.begin() as tx:
            if await tx.unpark(tenant, key) is None:
                raise Conflict(f"target {key!r} is not parked or disabled: there is nothing to enable")
            await note(tx, tenant, key, "enabled", None, by)
        self._forget(tenant, key)
        return await open_again(here._store, tenant, key, storable(by), self._most)

    async def probe(
        self, destination: str, *, tenant: str = "default", transaction: Any = None, by: str = "api"
    ) -> None:
        """Let a worker try a parked destination at its next poll, instead of when its back-off ends."""
        here = self._within(transaction)
        key = await here._key(destination, tenant)
        async with here._store.begin() as tx:
            found = await tx.probe_now(tenant, key)
            if found:
                await note(tx, tenant, key, "probed", None, by)
        if not found:
            raise Conflict(f"target {key!r} is not parked, or was disabled until a person enables it")

    async def limit(
        self,
        destination: str | None = None,
        *,
        concurrency: int | None = None,
        rate: float | str | None = None,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
    ) -> Known:
        """Limit how many events go to a destination at once, from each worker, and how many a second, from all workers.
        Without a destination, the limit is for all of the tenant's together. None means no limit."""
        problems = [*name_problems("tenant", tenant)]
        if concurrency is not None and (type(concurrency) is not int or not 1 <= concurrency <= MOST_CONCURRENCY):
            problems.append(Problem("concurrency", f"must be 1 to {MOST_CONCURRENCY:,}, not {concurrency!r:.50}"))
        try:
            often = None if rate is None else 1 / read_rate(rate).total_seconds()
        except Invalid as error:
            problems += error.problems
        if problems:
            raise Invalid(problems)
        here = self._within(transaction)
        key = DESTINATION_OF_ALL if destination is None else await here._key(destination, tenant)
        if key.rstrip("/") != whose_events(key):
            raise Invalid([Problem("destination", f"limits are for a whole origin: give {whose_events(key)}")])
        key = whose_events(key)
        async with here._store.begin() as tx:
            await tx.limit(tenant, key, concurrency, often)
            told = [f"{concurrency} at once" if concurrency else None, show_rate(often) if often else None]
            await note(tx, tenant, key, "limited", ", ".join(filter(None, told)) or "no limits", by)
            [known] = await tx.destinations([(tenant, key)])
        self._forget(tenant, key)
        return known

    async def known(self, destination: str, *, tenant: str = "default") -> Known:
        """The limits of a destination, and whether it is parked."""
        [known] = await self._store.destinations([(tenant, await self._key(destination, tenant))])
        return known

    @reads
    async def destinations(
        self, *, tenant: str | None = None, after: tuple[str, str] = ("", ""), limit: int = MOST_LISTED
    ) -> builtins.list[Known]:
        """The destinations that have limits or are parked."""
        check_page(limit)
        return await self._store.list_destinations(tenant, after=after, limit=limit)

    async def waiting(self, destination: str, *, tenant: str = "default") -> int:
        """How many events are held until a destination is open again."""
        key = (tenant, await self._key(destination, tenant))
        return (await self._store.held_for([key]))[key]

    @for_doors
    @reads
    async def waiting_for(self, destinations: Sequence[Known]) -> dict[tuple[str, str], int]:
        """How many events are held for each of these destinations that is parked, by tenant and destination."""
        parked = [(known.tenant, known.destination) for known in destinations if known.parked is not None]
        return await self._store.held_for(parked) if parked else {}

    def signing_secret(self, url: str, *, tenant: str = "default") -> str:
        """The secret that signs webhooks to a URL that is no stored target's; their receiver needs it."""
        if problems := [*url_problems("url", url), *name_problems("tenant", tenant)]:
            raise Invalid(problems)
        if not self._keys:
            self._seal.close(Sealed(tenant, url))  # raises, with what to do
        return self._keys.signing(tenant, origin_of(url))[0]

    # -- internal

    def _within(self, transaction: Any) -> "Targets":
        """The same verbs in the caller's transaction, if there is one. Until it commits, and for a moment after it,
        workers may go on by what they have read before."""
        tx = self._transaction_of(transaction)
        if tx is None:
            return self
        return Targets(tx, self._forget, self._keys, self._signals, self._most, self._via, self._transaction_of)

    def _open(self, target: Target) -> Sealed:
        if target.sealed is None:
            return Sealed(target.tenant, target.name)
        return self._seal.open(target.sealed, target.tenant, target.name)

    async def _found(self, tx: TargetTransaction, name: str, tenant: str) -> Target:
        found = await tx.target(tenant, name) if not list(target_name_problems("name", name)) else None
        return require_found("target", found, f"{name!r:.100}", tenant)

    async def _stored(self, tx: TargetTransaction, tenant: str, name: str, secret: str | None) -> Target:
        return msgspec.structs.replace(await self._found(tx, name, tenant), secret=secret)

    async def _key(self, destination: str, tenant: str) -> str:
        """The key of a destination in the tables: a stored target's name, or a normalized URL or origin."""
        if "://" not in str(destination):
            return (await self.get(destination, tenant=tenant)).name
        if problems := list(url_problems("destination", destination)):
            raise Invalid(problems)
        return parked_as(destination)


def _in_use(name: str, many: int) -> str:
    """The refusal to delete a target that events use, among them the next events of schedules and users."""
    events = "1 event" if many == 1 else f"{many:,} events"
    return (
        f"target {name!r} is still needed for {events}, including the next events of schedules and users. "
        "Give these another target or cancel them; or delete the target with force, and they become dead "
        "letters when they are due"
    )


def _problems(
    name: Any, tenant: Any, channel: Any, spec: dict[str, Any], headers: Any, secret: Any
) -> Iterator[Problem]:
    yield from target_name_problems("name", name)
    yield from name_problems("tenant", tenant)
    if channel not in (WEBHOOK, HTTP):
        yield Problem("channel", f"expected {WEBHOOK} or {HTTP}, not {channel!r:.50}")
    yield from url_problems("url", spec.get("url"))
    for problem in request_problems("", spec, KNOWN[HTTP]):
        yield problem._replace(path=problem.path.lstrip("."))
    if channel == WEBHOOK and "method" in spec:
        yield Problem("method", "a webhook is always a POST; for other methods use channel='http'")
    if channel == WEBHOOK and "retry_statuses" in spec:
        yield Problem("retry_statuses", "is for targets with channel='http': what webhooks retry is fixed")
    if channel == HTTP and "format" in spec:
        yield Problem("format", "is for webhooks")
    if headers is not None:
        named = dict(headers) if isinstance(headers, Mapping) else headers
        yield from header_problems("headers", named)
        if channel == WEBHOOK and isinstance(named, dict):
            taken = [name for name in named if str(name).lower() in SAID]
            yield from (Problem(f"headers.{name}", "is set by the webhook") for name in taken)
    if secret is not None:
        if channel == HTTP:
            yield Problem("secret", "is only for webhooks: send it in a header")
        elif (wrong := secret_problem("secret", secret)) is not None:
            yield wrong


def _span(path: str, span: timedelta | str, problems: Sequence[Problem]) -> timedelta:
    """A duration; raises Invalid, also with the *problems* that were found before."""
    try:
        found = span if isinstance(span, timedelta) else parse_duration(span)
    except (ValueError, TypeError, AttributeError):
        raise Invalid([*problems, Problem(path, f"{span!r:.50} is not a duration")]) from None
    if not timedelta() <= found <= LONGEST_KEPT:
        raise Invalid([*problems, Problem(path, "must be from 0s to 365d")])
    if problems:
        raise Invalid(problems)
    return found
