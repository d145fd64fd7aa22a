"""``duly worker`` and ``tick``: the commands that run events."""

import asyncio
import contextlib
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from cyclopts.validators import Number

from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import brief, note, print_json, screen
from duly.cli.processes.capabilities import handlers_of, served
from duly.cli.processes.child_link import Answers, answer_parent
from duly.cli.processes.file_limit import raise_file_limit
from duly.cli.processes.health import WorkerReadiness
from duly.cli.processes.probes import MetricsPort, Ports, answering
from duly.cli.processes.run_to_end import run_to_its_end
from duly.cli.processes.supervisor import Processes, drain_without_parent
from duly.config import read_settings
from duly.duly import Duly
from duly.errors import BadSetting, Misuse
from duly.observers.logs import configure_logging
from duly.signals import GivenBack, HeldBack, Interrupted, PassEnded


def register(commands: App) -> None:
    commands.command(worker)
    commands.command(tick)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Options of a worker."""

    concurrency: Annotated[
        int | None, Parameter(help="Events to run at once in each process (default: DULY_CONCURRENCY, or 100)")
    ] = None
    commands: Annotated[
        list[str] | None,
        Parameter(
            help="Run commands too; requests over HTTP may name the programs in these folders, if any",
            metavar="[FOLDER…]",
            consume_multiple=True,
        ),
    ] = None
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], help="Also log every completed event")] = False


AS_IT_IS = WorkerOptions()


def worker(
    *,
    processes: Annotated[int, Parameter(help="Number of processes (default: 1)", validator=Number(gte=1))] = 1,
    health: Annotated[
        str | None,
        Parameter(
            help="Answer probes at /healthz and /readyz on this port; on loopback, unless a host is given",
            metavar="[HOST:]PORT",
        ),
    ] = None,
    metrics: MetricsPort = None,
    options: WorkerOptions = AS_IT_IS,
    parent: Annotated[int | None, Parameter(show=False)] = None,
    asked: Annotated[int | None, Parameter(show=False)] = None,
    counts: Annotated[bool, Parameter(show=False)] = False,
    invocation: Hidden,
) -> None:
    """Run a worker until it is stopped: call the app's handlers, and send events to webhooks and brokers.

    Without --app, it only sends to webhooks and brokers. Any number of workers may share a database. On SIGTERM or
    Ctrl-C, it finishes running events first.
    """
    ports = Ports.read(health, metrics)
    duly = ready_to_work(invocation, options)
    if parent is None:
        tell_what_is_served(duly)
    if processes > 1:
        _refuse_memory(duly)
        patience = duly.settings.shutdown_grace.total_seconds() + 10
        command = _same_again(invocation, options, counts=ports.metrics is not None)
        asyncio.run(_family(Processes(command, processes, patience, asks=any(ports)), ports))
        return
    if parent is not None:
        drain_without_parent(parent)
    run_to_its_end(_alone(duly, ports, asked, counts=counts or ports.metrics is not None))


async def _family(family: Processes, ports: Ports) -> None:
    async with answering(ports, family.not_ready, family.metrics):
        await family.run()


async def _alone(duly: Duly, ports: Ports, asked: int | None, *, counts: bool) -> None:
    """Runs the worker of this process, while probes and the parent process are answered."""
    readiness = WorkerReadiness(duly)
    counted = duly.metrics() if counts else None
    answers: Answers = {"reason": readiness.reason}
    if counted is not None:
        answers = {**answers, "metrics": counted.own_snapshot, "store": counted.store_snapshot}
    with _answering_parent(asked, answers):
        async with answering(ports, readiness.reason, None if counted is None else counted.snapshot):
            await duly.run()


@contextlib.contextmanager
def _answering_parent(asked: int | None, answers: Answers) -> Iterator[None]:
    task = None if asked is None else asyncio.create_task(answer_parent(asked, answers))
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


def tick(
    *,
    within: Annotated[
        str | None,
        Parameter(help="Start no more events after this time, such as 50s; running events may finish", metavar="SPAN"),
    ] = None,
    options: WorkerOptions = AS_IT_IS,
    invocation: Hidden,
) -> None:
    """Run all events that are due now, then exit.

    Events that become due meanwhile are left for the next run. On SIGTERM or Ctrl-C, it finishes running events first.
    """
    duly = ready_to_work(invocation, options)
    beside: Counter[type] = Counter()
    duly.observe(lambda signal: beside.update([type(signal)]), GivenBack, HeldBack, Interrupted)
    done = asyncio.run(duly.tick(within=within, signals=True))
    became = {
        "completed": done.processed,
        "to_be_retried": done.retried,
        "failed": done.failed,
        "given_back": beside[GivenBack],
        "held": beside[HeldBack],
        "found_interrupted": beside[Interrupted],
    }
    if invocation.json:
        print_json({**became, **_figures(done)})
    elif any(became.values()):
        screen().print(_in_words({**became, "late": done.late}, done))
    else:
        screen().print(f"nothing is due for {served(duly)}")


def _figures(done: PassEnded) -> dict[str, Any]:
    return {
        "late": done.late,
        "average_lateness_seconds": done.average_lateness.total_seconds(),
        "recovery": done.recovery,
        "duration_seconds": done.duration.total_seconds(),
    }


def _in_words(counts: Mapping[str, int], done: PassEnded) -> str:
    words = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)
    tried = done.processed + done.retried + done.failed > 0
    late = f"on average {brief(done.average_lateness)} late, " if tried else ""
    return f"{words}; {late}in {brief(done.duration)}"


def ready_to_work(invocation: Invocation, options: WorkerOptions) -> Duly:
    return in_this_manner(invocation.duly_that_serves(), options)


def in_this_manner(duly: Duly, options: WorkerOptions) -> Duly:
    if options.concurrency is not None:
        duly.settings = msgspec.structs.replace(duly.settings, concurrency=_checked(options.concurrency))
    if options.commands is not None:
        duly.serve_commands(_folders(options.commands))
    configure_logging(duly.settings.log_format, logging.DEBUG if options.verbose else logging.INFO)
    raise_file_limit()
    return duly


def tell_what_is_served(duly: Duly) -> None:
    """Notes on standard error that this process has no handlers, which may surprise."""
    if not handlers_of(duly) and duly.settings.log_format == "text":
        note(f"This serves {served(duly)}. To run handlers, give the module that has them, such as --app shop:duly.")


def _checked(concurrency: int) -> int:
    try:
        return read_settings(concurrency=concurrency).concurrency
    except BadSetting as error:
        raise Misuse(f"--concurrency {concurrency} cannot be used: expected {error.allowed}") from None


def _folders(given: Sequence[str]) -> list[str]:
    try:
        return list(read_settings(commands=list(given)).commands or ())
    except BadSetting as error:
        raise Misuse(f"--commands {' '.join(given)} cannot be used: expected {error.allowed}") from None


def _same_again(invocation: Invocation, options: WorkerOptions, *, counts: bool) -> list[str]:
    """The command line of a child process, with the same options."""
    command = [sys.executable, "-m", "duly", "worker"]
    for option, value in (("--app", invocation.app), ("--db", invocation.db), ("--concurrency", options.concurrency)):
        if value is not None:
            command += [option, str(value)]
    command += [*["--verbose"] * options.verbose, *["--counts"] * counts]
    return command if options.commands is None else [*command, "--commands", *options.commands]


def _refuse_memory(duly: Duly) -> None:
    if duly.database_path == ":memory:":
        raise Misuse("several processes cannot share a database in memory: give a file or PostgreSQL with --db")
