"""What a long-running process answers on ports of its own: probes of its health, and its metrics."""

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from duly.cli.processes.health import AskReadiness, health_pages
from duly.cli.processes.listener import Listener, Pages, read_place
from duly.cli.processes.metrics import AskSnapshot, metrics_pages
from duly.observers.logs import Line
from duly.observers.metrics.metrics import require_prometheus

log = logging.getLogger("duly")

MetricsPort = Annotated[
    str | None,
    Parameter(
        help="Answer Prometheus at /metrics on this port; on loopback, unless a host is given",
        metavar="[HOST:]PORT",
    ),
]


class Ports(NamedTuple):
    """Where a process answers, by the options that say so; None: nowhere."""

    health: tuple[str, int] | None
    metrics: tuple[str, int] | None

    @classmethod
    def read(cls, health: str | None, metrics: str | None) -> "Ports":
        if metrics is not None:
            require_prometheus()
        return cls(
            None if health is None else read_place(health, "--health"),
            None if metrics is None else read_place(metrics, "--metrics"),
        )


@contextlib.asynccontextmanager
async def answering(ports: Ports, not_ready: AskReadiness | None, snapshot: AskSnapshot | None) -> AsyncIterator[None]:
    """Answers within this context. One port may serve both."""
    pages: list[tuple[str, tuple[str, int], Pages]] = []
    if ports.health is not None and not_ready is not None:
        pages.append(("health", ports.health, health_pages(not_ready)))
    if ports.metrics is not None and snapshot is not None:
        pages.append(("metrics", ports.metrics, metrics_pages(snapshot)))
    async with contextlib.AsyncExitStack() as stack:
        for place in dict.fromkeys(place for _, place, _ in pages):
            here = {name: found for name, at, found in pages if at == place}
            together = {path: page for found in here.values() for path, page in found.items()}
            listening = Listener(together).listening(*place, option=f"--{next(iter(here))}")
            address = await stack.enter_async_context(listening)
            for name in here:
                log.info(Line(f"{name}.listening", {"address": address}))
        yield
