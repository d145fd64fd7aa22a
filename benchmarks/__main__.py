"""``make bench``: every workload on every store, in processes of their own, interleaved, several times.

It starts its own PostgreSQL, with fsync and synchronous_commit on. Figures are medians; the spread is beside them.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from tests.servers import Postgres

STORES = ("postgresql", "sqlite")
DURABLE = {"shared_buffers": "1GB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}

Results = dict[tuple[str, str], list[dict[str, float]]]


def main() -> None:
    arguments = _arguments()
    workloads = {
        "insert": (arguments.events,),
        "drain": (arguments.events,),
        "lateness": (arguments.rate, arguments.seconds),
        "idle": (arguments.seconds,),
    }
    chosen = {name: numbers for name, numbers in workloads.items() if name in (arguments.only or workloads)}
    results: Results = defaultdict(list)
    busy = psutil.cpu_percent(interval=1)
    with Postgres(durable=True, settings=DURABLE) as server, tempfile.TemporaryDirectory() as folder:
        for repetition in range(arguments.repeat):
            for workload, numbers in chosen.items():
                for store in STORES:
                    name = f"{workload}_{repetition}"
                    file = Path(folder, f"{name}.db")
                    url = server.create_database(name) if store == "postgresql" else f"sqlite:///{file}"
                    results[workload, store].append(_run("duly", workload, url, numbers))
                    print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    machine = {
        "python": platform.python_version(),
        "cores": psutil.cpu_count(),
        "other_load_percent": busy,
        "events": arguments.events,
        "repetitions": arguments.repeat,
    }
    _show(results, machine)
    if arguments.json:
        rows = [{"workload": w, "store": s, "runs": runs} for (w, s), runs in results.items()]
        arguments.json.write_text(json.dumps({"machine": machine, "results": rows}, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--events", type=int, default=50_000, help="how many to insert and to drain")
    parser.add_argument("--rate", type=int, default=200, help="one-shots a second, for lateness")
    parser.add_argument("--seconds", type=int, default=20, help="how long to measure lateness and idling")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=["insert", "drain", "lateness", "idle"])
    parser.add_argument("--json", type=Path, help="write every single figure to this file")
    return parser.parse_args()


def _run(contender: str, workload: str, url: str, numbers: tuple[int, ...]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.one", contender, workload, url, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def _show(results: Results, machine: dict[str, object]) -> None:
    table = Table(title="Duly, durable commits, history kept: " + ", ".join(f"{k} {v}" for k, v in machine.items()))
    for column in ("workload", "store", "figure", "median", "spread"):
        table.add_column(column, justify="right" if column in ("median", "spread") else "left")
    for (workload, store), runs in results.items():
        for figure in runs[0]:
            values = [run[figure] for run in runs]
            spread = f"{min(values):,.1f} … {max(values):,.1f}"
            table.add_row(workload, store, figure, f"{statistics.median(values):,.1f}", spread)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
