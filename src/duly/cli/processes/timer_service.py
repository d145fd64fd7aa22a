"""``duly timer-service``: timers over a broker."""

import logging
from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.invocation import Hidden
from duly.cli.processes.file_limit import raise_file_limit
from duly.cli.processes.probes import MetricsPort, Ports, answering
from duly.cli.processes.run_to_end import run_to_its_end
from duly.config import read_settings
from duly.observers.logs import configure_logging
from duly.observers.metrics.timers import TimerCounts
from duly.timer_service.service import TimerService, read_timer_settings


def register(commands: App) -> None:
    commands.command(timer_service)


def timer_service(
    *,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], help="Also log every completed event")] = False,
    metrics: MetricsPort = None,
    invocation: Hidden,
) -> None:
    """Consume ScheduleTimer commands from a broker, and publish DueTimeReached when each is due.

    TIMER_BROKER_URL, TIMER_DB_PATH, TIMER_POLLING_INTERVAL (milliseconds) and TIMER_BATCH_SIZE configure it; --db names
    a database instead of a file. Any number of them may share a PostgreSQL database and a broker. On SIGTERM or
    Ctrl-C, it finishes running events first.
    """
    invocation.check_db()
    settings = read_timer_settings(invocation.db)
    configure_logging(read_settings().log_format, logging.DEBUG if verbose else logging.INFO)
    raise_file_limit()
    run_to_its_end(_run(TimerService(settings), Ports.read(None, metrics)))


async def _run(service: TimerService, ports: Ports) -> None:
    if ports.metrics is None:
        await service.run()
        return
    counted = service.duly.metrics()
    counted.add(TimerCounts(service.duly.signals).samples)
    async with answering(ports, None, counted.snapshot):
        await service.run()
