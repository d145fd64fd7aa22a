"""``client.targets``: stored targets, to which events go by name."""

import builtins
import secrets as luck
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import timedelta
from typing import Any, NoReturn

import msgspec

from duly.client.protocol.connection import place
from duly.client.protocol.group import NOTHING, Group, said
from duly.client.protocol.paging import all_pages, up_to
from duly.client.protocol.refusals import here_only, refuse_name, refuse_transaction
from duly.client.protocol.writing import rate_text
from duly.decide.checks import MOST_LISTED
from duly.decide.targets.secrets import written
from duly.decide.targets.targets import WEBHOOK, listed_statuses, target_name_problems
from duly.errors import Misuse, NotFound
from duly.records.results import TargetTest
from duly.records.target import TARGET_JSON, TARGET_PAGE, Known, Target
from duly.records.wire.answers import ReleasedEvents
from duly.values.durations import format_duration
from duly.verbs.targets import OLD_SECRET_KEPT_FOR

BY_NAME = "over HTTP, only stored targets can be named: for other destinations, use `duly targets` on the command line"
ELSEWHERE = "use `duly targets` on the command line"


RELEASED = msgspec.json.Decoder(ReleasedEvents)
TESTED = msgspec.json.Decoder(TargetTest)

LONGEST_TEST_S = 60.0
"""Seconds for which a server waits for the answer to a test."""


class Targets(Group):
    """The verbs of ``duly.targets`` for stored targets, by name."""

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
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> Target:
        """Store a target, or replace it. A webhook's target has a secret, which is generated unless one is given; it is
        in the answer to the call that generated it, and never shown again. (If that answer is lost, the answer to the
        retry does not have it: ``rotate`` generates another.) An existing target keeps its secret and the values of its
        headers unless others are given. *retry_statuses*, of a target for http, are the only statuses that are
        retried."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        span = format_duration(timeout) if isinstance(timeout, timedelta) else timeout
        body = said(url=url, channel=channel, method=method, format=format, timeout=span, secret=secret)
        if retry_statuses is not None:
            body["retry_statuses"] = listed_statuses(retry_statuses)
        if headers is not None:
            body["headers"] = dict(headers)
        return await self._connection.ask("PUT", place("targets", name), body, reads=TARGET_JSON)

    async def rotate(
        self,
        name: str,
        *,
        secret: str | None = None,
        keep: timedelta | str = OLD_SECRET_KEPT_FOR,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> Target:
        """Give a webhook's target a new secret. Until *keep* has passed, the old secret signs as well, so that the
        receiver can switch to the new one without a gap."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        # Generated here: if the answer is lost, the retry sends the same secret, and the server need not store it to
        # repeat it.
        made = secret or written(luck.token_bytes(32))
        body = {"secret": made, "keep": format_duration(keep) if isinstance(keep, timedelta) else keep}
        return await self._connection.ask("POST", _place(name, "rotate"), body, reads=TARGET_JSON)

    async def get(self, name: str, *, tenant: str | None = None) -> Target:
        self._check(tenant)
        return await self._connection.ask("GET", _place(name), reads=TARGET_JSON)

    async def list(
        self, *, tenant: str | None = None, after: tuple[str, str] = ("", ""), limit: int = MOST_LISTED
    ) -> builtins.list[Target]:
        """The targets, in the order of names. For the next page, *after* is the tenant and name of the last target."""
        self._check(tenant)
        path, last = place("targets"), after[1] or None
        return await up_to(limit, self._connection, path, TARGET_PAGE, after=last)

    async def all(self, *, tenant: str | None = None) -> AsyncIterator[Target]:
        """Every target, in the order of names."""
        self._check(tenant)
        async for page in all_pages(self._connection, place("targets"), TARGET_PAGE):
            for target in page.items:
                yield target

    async def delete(
        self, name: str, *, force: bool = False, tenant: str | None = None, transaction: Any = None, by: str = "api"
    ) -> Target:
        """Delete a target. Refused while events wait for it, unless with *force*: then they become dead letters when
        they are due."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        place = f"{_place(name)}?force=true" if force else _place(name)
        return await self._connection.ask("DELETE", place, reads=TARGET_JSON, once=True)

    async def test(self, target: str | dict[str, Any], *, tenant: str | None = None, by: str = "api") -> TargetTest:
        """Send a test to a stored target, by its name, or to a *target* as an event would have it, and tell what came
        back. The server sends it, also while the target is parked, and nothing counts it."""
        self._check(tenant)
        refuse_name(by)
        path = _place(target, "test") if isinstance(target, str) else place("targets", "test")
        body = {} if isinstance(target, str) else {"target": target}
        return await self._connection.ask("POST", path, body, reads=TESTED, patience=LONGEST_TEST_S)

    async def disable(
        self,
        destination: str,
        *,
        tenant: str | None = None,
        reason: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> None:
        """Send nothing to a destination until it is enabled: its events are held."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        await self._connection.ask(
            "POST", _named(destination, "disable"), said(reason=reason), reads=NOTHING, once=True
        )

    async def enable(
        self, destination: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api"
    ) -> int:
        """Send to a destination again, whatever it was parked for; return how many events were waiting for it."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        return (await self._connection.ask("POST", _named(destination, "enable"), {}, reads=RELEASED, once=True)).events

    async def probe(
        self, destination: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api"
    ) -> None:
        """Let a worker try a parked destination at its next poll, instead of when its back-off ends."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        await self._connection.ask("POST", _named(destination, "probe"), {}, reads=NOTHING, once=True)

    async def limit(
        self,
        destination: str | None = None,
        *,
        concurrency: int | None = None,
        rate: float | str | None = None,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> Known:
        """Limit how many events go to a destination at once, from each worker, and how many a second, from all workers.
        None means no limit. Leaving the destination out would limit all of the tenant's, which is refused over HTTP."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        if destination is None:
            raise Misuse(BY_NAME)
        body = said(concurrency=concurrency, rate=rate_text(rate))
        return _known(
            await self._connection.ask("PUT", _named(destination, "limits"), body, reads=TARGET_JSON, once=True)
        )

    async def known(self, destination: str, *, tenant: str | None = None) -> Known:
        """The limits of a destination, and whether it is parked."""
        self._check(tenant)
        return _known(await self._connection.ask("GET", _named(destination), reads=TARGET_JSON))

    # -- refused over HTTP

    def reseal(self, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> NoReturn:
        raise here_only("targets.reseal", "run `duly targets reseal` where DULY_SECRET_KEY is set")

    def history(self, name: str, *, tenant: str | None = None) -> NoReturn:
        raise here_only("targets.history", ELSEWHERE)

    def destinations(
        self, *, tenant: str | None = None, after: tuple[str, str] = ("", ""), limit: int = MOST_LISTED
    ) -> NoReturn:
        raise here_only("targets.destinations", ELSEWHERE)

    def waiting(self, destination: str, *, tenant: str | None = None) -> NoReturn:
        raise here_only("targets.waiting", ELSEWHERE)

    def signing_secret(self, url: str, *, tenant: str | None = None) -> NoReturn:
        raise here_only("targets.signing_secret", "it is derived from DULY_SECRET_KEY, which only the server has")


def _known(target: Target) -> Known:
    return target.known or Known(target.tenant, target.name)


def _place(name: str, *act: str) -> str:
    """The path of a target; raises NotFound without a request if no target can have this name."""
    if list(target_name_problems("name", name)):
        raise NotFound(f"there is no target {name!r:.100}")
    return place("targets", name, *act)


def _named(destination: Any, *act: str) -> str:
    if "://" in str(destination):
        raise Misuse(BY_NAME)
    return _place(destination, *act)
