"""``make compare BASE=<commit>``: is this checkout slower than that commit?

BASE is cloned into a temporary folder, with an environment of its own and the same pinned dependencies. The two are
measured in turns of some tenths of a second, of which a round has several, and which of the two is first alternates.
What counts is the CPU time of an event, in Duly's own process and, beside that, in the PostgreSQL server: the machine's
speed varies by half within a minute, but hardly from one turn to the next. What is measured comes from this checkout
and asks Duly only for what users may ask for, so BASE may be older than this tool. Exits with 1 if something is worse
by more than 5 %, beyond its spread.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.http import Server, singles, started
from benchmarks.paired import LEAST_ROUNDS, WORSE, Compared, compare
from benchmarks.usage import Usage
from benchmarks.workloads import tidy
from tests.servers import Postgres

HERE = Path(__file__).parents[1]
ROUNDS = 9
"""With nine rounds, one outlier in each direction does not change the verdict. They take 12 minutes on two idle
cores."""

MINUTES = 20
"""Minutes after which no further round begins, if there are enough rounds: for a machine that is busy otherwise."""

STORES = ("sqlite", "postgres")
EVENTS = {"insert": 10_000, "drain": 5_000, "lateness": 200, "http creates": 250}
"""Events of one turn, by workload, in the order in which the workloads are measured."""

TURNS = {"insert": 10, "drain": 8, "lateness": 4, "http creates": 8}
"""Turns of each side in a round: an even number, so that both sides are first equally often."""

SERVER = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "autovacuum": "off",  # it would run in the middle of one side's turn
}
TIMEOUT = 120  # seconds for a process to end

console = Console(width=None if sys.stdout.isatty() else 130)
progress = Console(stderr=True)


class Side(NamedTuple):
    """A checkout, and the Python interpreter that imports its Duly."""

    name: str
    python: Path
    metrics: bool = False  # whether its workers count for Prometheus


class Row(NamedTuple):
    """A measurement: a workload on a store, and the process whose CPU time is measured."""

    workload: str
    store: str
    whose: str  # client or server


def main() -> None:
    arguments = _arguments()
    workloads = [name for name in EVENTS if not arguments.only or name.replace(" ", "-") in arguments.only]
    with tempfile.TemporaryDirectory(prefix="duly-compare-") as folder, contextlib.ExitStack() as stack:
        new = Side("new", Path(sys.executable), arguments.metrics)
        base = Side("base", checked_out(arguments.base, Path(folder)))
        server = (
            stack.enter_context(Postgres(durable=True, settings=SERVER)) if "postgres" in arguments.stores else None
        )
        measured: dict[Row, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        began = time.monotonic()
        for number in range(arguments.rounds):
            sides = [base, new] if number % 2 == 0 else [new, base]
            for store in arguments.stores:
                with databases(store, server, Path(folder), sides) as urls:
                    for workload in workloads:
                        for row, side, figure in both(workload, store, sides, urls):
                            measured[row][side].append(figure)
            took = (time.monotonic() - began) / 60
            progress.print(f"Round {number + 1} of {arguments.rounds}, after {took:.1f} minutes")
            if took > arguments.minutes and number + 1 >= LEAST_ROUNDS:
                break
    found = {row: compare(figures["base"], figures["new"]) for row, figures in measured.items()}
    console.print(table(found, number + 1))
    if arguments.json:
        rounds = [{**row._asdict(), **figures} for row, figures in measured.items()]
        arguments.json.write_text(json.dumps(rounds, indent=1) + "\n")
    if any(one.verdict == WORSE for one in found.values()):
        raise SystemExit(1)


def _arguments() -> argparse.Namespace:
    names = [name.replace(" ", "-") for name in EVENTS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"at least {LEAST_ROUNDS}; else {ROUNDS}")
    parser.add_argument("--only", nargs="+", choices=names, metavar="WORKLOAD", help=", ".join(names))
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES, metavar="STORE", help=", ".join(STORES))
    parser.add_argument("--metrics", action="store_true", help="let the workers of this checkout count for Prometheus")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"after which no round begins; else {MINUTES}")
    parser.add_argument("--json", type=Path, help="write the figures of every round to this file")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("there is at least one round")
    if arguments.rounds < LEAST_ROUNDS:
        progress.print(f"Fewer than {LEAST_ROUNDS} rounds show little: this is to see that it works.")
    return arguments


# -- the checkouts


def checked_out(commit: str, folder: Path) -> Path:
    """The Python of an environment with that commit's Duly and the dependencies that this checkout pins."""
    checkout, environment = folder / "checkout", folder / "venv"
    found = _run("git", "-C", str(HERE), "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    _run("git", "clone", "--quiet", "--shared", "--no-checkout", str(HERE), str(checkout))
    _run("git", "-C", str(checkout), "checkout", "--quiet", "--detach", found)
    pins = "requirements/dev.txt"
    if (HERE / pins).read_bytes() != (checkout / pins).read_bytes():
        progress.print(f"{commit} pins other dependencies: both are measured with those of this checkout")
    progress.print(f"Installing {commit} ({found[:12]})")
    python = environment / "bin/python"
    uv = str(Path(sys.executable).with_name("uv"))
    _run(uv, "venv", "--quiet", "--python", sys.executable, str(environment))
    _run(uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(HERE / pins))
    editable = ("--no-deps", "--no-build-isolation", "--editable", str(checkout))
    _run(uv, "pip", "install", "--quiet", "--python", str(python), *editable)
    imported = _run(str(python), "-c", "import duly; print(duly.__file__)")
    if not Path(imported).is_relative_to(checkout):
        raise SystemExit(f"{python} imports {imported}, and not the Duly of {commit}")
    return python


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE, env=surroundings())
    if done.returncode != 0:
        raise SystemExit(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def surroundings() -> dict[str, str]:
    """The environment variables without those that would make one side import or connect differently."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("DULY_", "PYTHON", "VIRTUAL_"))}


# -- measuring


@contextlib.contextmanager
def databases(store: str, server: Postgres | None, folder: Path, sides: list[Side]) -> Iterator[dict[str, str]]:
    """A new database for each side, whose tables the side's own Duly has created."""
    urls = {}
    for side in sides:
        if server is not None and store == "postgres":
            urls[side.name] = server.create_database(side.name)
        else:
            urls[side.name] = f"sqlite:///{folder}/{side.name}.db"
        once(side, "migrate", urls[side.name])
    yield urls
    for side in sides:
        if server is not None and store == "postgres":
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {side.name} WITH (FORCE)")
                connection.execute("CHECKPOINT")
        else:
            for file in folder.glob(f"{side.name}.db*"):
                file.unlink()


def both(workload: str, store: str, sides: list[Side], urls: dict[str, str]) -> Iterator[tuple[Row, str, float]]:
    """Measures both sides in turns. Yields the CPU time per event in µs."""
    spent: dict[tuple[str, str], float] = defaultdict(float)
    with contextlib.ExitStack() as stack:
        playing = {
            side.name: stack.enter_context(
                serving(side, urls[side.name])
                if workload == "http creates"
                else processing(side, workload, urls[side.name])
            )
            for side in sides
        }
        for side in sides:
            playing[side.name](EVENTS[workload])  # a warm-up: loads modules, connects and plans queries
            tidy(urls[side.name])
        for number in range(TURNS[workload]):
            for side in sides if number % 2 == 0 else reversed(sides):
                for whose, seconds in playing[side.name](EVENTS[workload]).items():
                    spent[side.name, whose] += seconds
    for (side_name, whose), seconds in spent.items():
        if store == "postgres" or whose == "client":
            yield Row(workload, store, whose), side_name, 1e6 * seconds / (EVENTS[workload] * TURNS[workload])


Play = Callable[[int], dict[str, float]]
"""Takes a turn with a number of events, and returns the CPU seconds of the client and of the server."""


@contextlib.contextmanager
def processing(side: Side, workload: str, url: str) -> Iterator[Play]:
    """Runs a workload in a process of its own, which waits for the start of each turn."""
    with subprocess.Popen(
        _command(side, workload, url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE,
        env=surroundings(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def play(events: int) -> dict[str, float]:
            with Usage([], url) as usage:
                asked.write(f"{events}\n")
                asked.flush()
                answer = answers.readline()
            if not answer:
                raise SystemExit(f"{workload} of {side.name} failed: see above")
            return {"client": json.loads(answer), "server": usage.server}

        try:
            yield play
        finally:
            asked.close()
            process.wait(TIMEOUT)


@contextlib.contextmanager
def serving(side: Side, url: str) -> Iterator[Play]:
    """Runs a server. A turn sends timers, each with its own key and in its own request."""
    secret = once(side, "key", url)
    command = [str(side.python), "-m", "duly", "serve", "--no-worker", "--port", "0", "--db", url]
    created = 0
    with started(command, {"DULY_LOG_FORMAT": "json"}, re.compile(r"Duly serves (http://[\d.:]+)")) as (
        process,
        address,
    ):
        server = Server(process, address, {"Authorization": f"Bearer {secret}"})

        def play(events: int) -> dict[str, float]:
            nonlocal created
            _, _, usage = asyncio.run(singles(server, url, events, created))
            created += events
            return {"client": usage.workers, "server": usage.server}

        yield play


def once(side: Side, name: str, url: str) -> str | None:
    """Runs a one-off command such as ``migrate`` in a process of its own, and returns its output."""
    command = _command(side, name, url)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=HERE, env=surroundings(), timeout=TIMEOUT
    )
    if done.returncode != 0:
        raise SystemExit(f"{name} of {side.name} failed: {done.stderr.strip()[-2000:]}")
    found: str | None = json.loads(done.stdout.splitlines()[-1])
    return found


def _command(side: Side, name: str, url: str) -> list[str]:
    return [str(side.python), "-m", "benchmarks.compared", name, url, *["--metrics"] * side.metrics]


# -- the report


def table(found: dict[Row, Compared], rounds: int) -> Table:
    shown = Table(title=f"CPU time in µs for each event: medians of {rounds} rounds", title_justify="left")
    for column in ("workload", "store", "whose"):
        shown.add_column(column)
    for column in ("base", "new", "new / base", "lies within"):
        shown.add_column(column, justify="right")
    shown.add_column("verdict")
    colours = {WORSE: "bold red"}
    for row, one in found.items():
        numbers = [f"{one.base:,.1f}", f"{one.new:,.1f}", f"{one.ratio:.3f}", f"{one.low:.3f} – {one.high:.3f}"]
        shown.add_row(*row, *numbers, f"[{colours.get(one.verdict, 'none')}]{one.verdict}[/]")
    return shown


if __name__ == "__main__":
    main()
