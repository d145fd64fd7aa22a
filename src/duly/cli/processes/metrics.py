"""``duly worker --metrics``: the metrics of this process, or of all processes of one parent."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus

import msgspec

from duly.cli.processes.child_link import NO_ANSWER, ChildLink
from duly.cli.processes.listener import Page, Pages
from duly.observers.metrics.gauges import ANSWER_WITHIN_S
from duly.observers.metrics.metrics import written
from duly.observers.metrics.snapshots import Sample, Snapshot, added, lasting

AskSnapshot = Callable[[], Awaitable[Snapshot]]

STORE_WITHIN_S = ANSWER_WITHIN_S + 1
"""Seconds in which a process must answer what the database holds."""


def metrics_pages(snapshot: AskSnapshot) -> Pages:
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    async def metrics() -> Page:
        return Page(HTTPStatus.OK, written(await snapshot()), CONTENT_TYPE_LATEST)

    return {"/metrics": metrics}


class FamilyMetrics:
    """The metrics of the processes of one parent, added up. What a process has counted stays when it has ended, so that
    no counter falls; but what it counted after it was last asked is lost with it."""

    def __init__(self) -> None:
        self._ended: Snapshot = ()
        self._known: dict[ChildLink, tuple[float, Snapshot]] = {}  # when each was asked last, by time.monotonic

    def ended(self, link: ChildLink) -> None:
        _, known = self._known.pop(link, (0.0, ()))
        self._ended = added([self._ended, lasting(known)])

    async def snapshot(self, links: Iterable[ChildLink]) -> Snapshot:
        links = list(links)
        answered = await asyncio.gather(*(self._ask(link) for link in links))
        own = [self._last(link) for link in links]
        return added([self._ended, *own, await _of_store([link for link in links if link in answered])])

    async def _ask(self, link: ChildLink) -> ChildLink | None:
        """Asks a process for its own metrics; returns it, if it has answered."""
        try:
            found = msgspec.json.decode(await link.ask("metrics"), type=list[Sample])
        except NO_ANSWER:
            return None
        self._known[link] = time.monotonic(), found
        return link

    def _last(self, link: ChildLink) -> Snapshot:
        """What a process has answered last. Its loop has grown older since, if it does not answer any more."""
        at, known = self._known.get(link, (0.0, ()))
        since = time.monotonic() - at
        return [
            Sample(one.name, one.labels, one.value + since) if one.name == "duly_poll_age_seconds" else one
            for one in known
        ]


async def _of_store(links: Iterable[ChildLink]) -> Snapshot:
    """What the database holds, as one process has asked it."""
    for link in links:
        try:
            return msgspec.json.decode(await link.ask("store", STORE_WITHIN_S), type=list[Sample])
        except NO_ANSWER:
            continue
    return ()
