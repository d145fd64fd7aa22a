"""Writes the tables of docs/benchmarks.md and the charts from docs/benchmarks.json: ``python -m benchmarks.report``.

Each table replaces the text between ``<!-- begin: name -->`` and ``<!-- end: name -->``.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.charts import draw_all
from benchmarks.results import Results, read
from benchmarks.tables import as_markdown, tables

DOCS = Path("docs")
RESULTS = DOCS / "benchmarks.json"
PAGE = DOCS / "benchmarks.md"


def main() -> None:
    results = read(RESULTS)
    draw_all(results, DOCS / "img")
    sections = {table.name: [*as_markdown(table), *_apart(results, table.name)] for table in tables(results)}
    sections |= {"made": list(_made(results)), "peers": list(_peers(results)), "absent": list(_absent(results))}
    page = PAGE.read_text()
    for name in re.findall(r"<!-- begin: (\w+) -->", page):
        begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = page.partition(begin)
        body = "\n".join(sections.get(name) or ["Not measured in this run."])
        page = f"{before}{begin}\n{body}\n\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(page)
    print(f"Written: {PAGE}")


def _made(results: Results) -> Iterator[str]:
    facts = results.machine
    if results.quick:
        yield "**These figures are from a quick run, which shows that everything works, and not how fast it is.**"
        yield ""
    settings = ", ".join(f"{name} {value}" for name, value in facts["settings"].items())
    times = "once" if facts["repetitions"] == 1 else f"{facts['repetitions']} times"
    yield (
        f"Measured on {results.made}, everything {times}: {facts['cores']} cores ({facts['cpu']}), "
        f"{facts['memory_gb']} GB, {facts['system']}, Python {facts['python']}, PostgreSQL {facts['postgresql']} "
        f"({settings}); a durable commit of one row takes {facts['commit_ms']:g} ms. Other load before the run: "
        f"{facts['other_load_percent']:g} % of all cores; load average {facts['load_average']:g} before and "
        f"{facts['load_average_after']:g} after it; at most {facts['most_other_load_percent']:g} % between the cases."
    )


def _apart(results: Results, workload: str) -> Iterator[str]:
    for when in sorted({row.apart for row in results.of(workload) if row.apart is not None}):
        yield ""
        yield f"From a run of its own: {when}."


def _peers(results: Results) -> Iterator[str]:
    yield "| | version | set up with | keeps |"
    yield "|---|---|---|---|"
    for peer in results.peers.values():
        yield f"| {peer['title']} | {peer['version']} | {peer['settings']} | {peer['keeps']} |"


def _absent(results: Results) -> Iterator[str]:
    missing = [row for row in results.rows if row.reason]
    for row in missing:
        yield f"- {row.title}, {row.workload} {row.label}".rstrip() + f": {row.reason}"
    if not missing:
        yield "Nobody was absent, and nothing failed."


if __name__ == "__main__":
    main()
