"""``make bench``: every workload, Duly beside its peers, interleaved, several times.

It starts its own PostgreSQL, with fsync, synchronous_commit and full_page_writes on. Figures are medians, with the
least and the most beside them. A full run writes docs/benchmarks.json, the charts and the tables of
docs/benchmarks.md; a run of a part writes nothing unless it is told where to, or to be published beside the rest.
"""

import argparse
import dataclasses
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks import machine, report
from benchmarks.peers import HOMES, OTHERS, Absent, find, known
from benchmarks.plan import QUICK, WORKLOADS, Case, Sizes, backdrops, cases
from benchmarks.results import Results, Row, read
from benchmarks.run import Stage, run_all
from benchmarks.tables import Table, tables

console = Console()
progress = Console(stderr=True)


def main() -> None:
    arguments = _arguments()
    sizes = QUICK if arguments.quick else Sizes()
    if arguments.repeat:
        sizes = dataclasses.replace(sizes, repeat=arguments.repeat)
    chosen = cases(sizes, arguments.only, arguments.peers)
    with Stage(backdrops(sizes)) as stage:
        facts = machine.describe(stage.server.url) | {"repetitions": sizes.repeat}
        progress.print(f"Other load: {facts['other_load_percent']} % of all cores, average {facts['load_average']}")
        figures, refused = run_all(stage, chosen, sizes.repeat, _tell)
    facts["load_average_after"] = round(os.getloadavg()[0], 2)
    results = Results(
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        quick=arguments.quick,
        machine=facts | _busiest(figures),
        peers=dict(_peers()),
        rows=tuple(_row(case, figures.get(case, []), refused.get(case)) for case in chosen),
    )
    whole = not (arguments.quick or arguments.only or arguments.peers or arguments.repeat)
    if path := arguments.json or (report.RESULTS if whole else None):
        results.write(path)
        progress.print(f"Written: {path}")
    for table in tables(results):
        console.print(_for_terminal(table))
    if arguments.publish and not whole:
        read(report.RESULTS).with_part(results).write(report.RESULTS)
    if whole or arguments.publish:
        report.main()
    if any(case.peer == "duly" for case in refused):
        raise SystemExit("a case of Duly's own failed")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small version, in three minutes: to see that it works")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--peers", nargs="*", choices=OTHERS, metavar="PEER", help=", ".join(OTHERS))
    parser.add_argument("--repeat", type=int, help="how often everything is measured")
    parser.add_argument("--publish", action="store_true", help="put what --only measures into docs/, with its date")
    parser.add_argument("--json", type=Path, help="write every single figure to this file")
    arguments = parser.parse_args()
    if arguments.publish and (arguments.quick or arguments.peers):
        parser.error("--publish is for workloads that are measured whole")
    return arguments


def _tell(case: Case, found: dict[str, Any] | str) -> None:
    if isinstance(found, str):
        shown = found
    else:
        shown = ", ".join(
            f"{name} {value:,.4g}" for name, value in found.items() if not isinstance(value, list) and name != "early"
        )
    progress.print(f"{case.workload} · {case.peer} · {case.label or '–'}: {shown}", highlight=False, soft_wrap=True)


def _peers() -> Any:
    for name in HOMES:
        try:
            peer = find(name)
        except Absent:
            continue
        yield (
            name,
            {"title": peer.title, "version": peer.version, "settings": peer.settings, "keeps": peer.keeps},
        )


def _row(case: Case, runs: list[dict[str, Any]], reason: str | None) -> Row:
    try:
        title = known(case.peer).title
    except Absent:
        title = case.peer.replace("_", "-")
    return Row(
        workload=case.workload,
        peer=case.peer,
        title=title,
        label=case.label,
        numbers=case.numbers,
        runs=tuple(runs),
        reason=reason,
    )


def _busiest(figures: dict[Case, list[dict[str, Any]]]) -> dict[str, float]:
    """The highest other load of the machine, measured before each case."""
    loads = [run["other_load_percent"] for runs in figures.values() for run in runs]
    return {"most_other_load_percent": max(loads, default=0.0)}


def _for_terminal(table: Table) -> RichTable:
    shown = RichTable(title=table.title, title_justify="left")
    for n, column in enumerate(table.columns):
        shown.add_column(column, justify="left" if n == 0 or table.name == "targets" else "right")
    colours = {"met": "[green]met[/]", "missed": "[red]missed[/]"}
    for row in table.rows:
        shown.add_row(*[colours.get(cell, cell) for cell in row])
    return shown


if __name__ == "__main__":
    main()
