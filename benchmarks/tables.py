"""Tables of the results, for the terminal and for the documentation."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.http import questions as http_questions
from benchmarks.reads import QUESTIONS
from benchmarks.results import Results, Row
from benchmarks.rules import CHANGES
from benchmarks.targets import verdicts


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text cells; the first column is left-aligned, figures are right-aligned."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[str]]


def tables(results: Results) -> list[Table]:
    own = (
        _claim,
        _claimers,
        _memory,
        _beside_pruning,
        _come_and_gone,
        _rules,
        _changes,
        _due,
        _due_bare,
        _catch_up,
        _import_users,
        _morning,
        _webhooks,
        _quiet,
        _worst,
        _timers,
        _reads,
        _http_creates,
        _http_reads,
        _http_memory,
        _targets,
    )
    made = [make(results) for make in (_insert, _drain, _lateness, _idle, *own)]
    return [table for table in made if table.rows]


def _targets(results: Results) -> Table:
    words = {True: "met", False: "missed", None: "not measured"}
    rows = [[one.what, one.target, one.found, words[one.met]] for one in verdicts(results)]
    return Table("targets", "Targets", ["", "target", "found", ""], rows)


def _insert(results: Results) -> Table:
    return _table(results, "insert", "Bulk insert of future events", {"events/s": _rate, **_COSTS, "events": _events})


def _drain(results: Results) -> Table:
    title = "Drain: due events, a handler that does nothing"
    return _table(results, "drain", title, {"events/s": _rate, **_COSTS, "events": _events})


def _lateness(results: Results) -> Table:
    rate = next((f", {row.numbers[0]} one-shots a second" for row in results.of("lateness") if row.numbers), "")
    columns = {
        "p50 ms": _ms("p50_ms"),
        "p99 ms": _ms("p99_ms"),
        "max ms": _ms("max_ms"),
        "worker CPU %": _plain("client_cpu_percent"),
        "seconds": lambda row: str(row.numbers[1]),
    }
    return _table(results, "lateness", f"Lateness{rate}", columns)


def _idle(results: Results) -> Table:
    columns = {
        "worker CPU %": _plain("worker_cpu_percent", 2),
        "its backends' CPU %": _plain("server_cpu_percent", 2),
    }
    return _table(results, "idle", "Idle, set up to be on time: CPU of each worker", columns)


def _claim(results: Results) -> Table:
    columns = {"p50 ms": _ms("p50_ms"), "p99 ms": _ms("p99_ms"), "max ms": _ms("max_ms")}
    return _table(results, "claim", "Growth: a claim of 100 beside", columns, label_first=True)


def _claimers(results: Results) -> Table:
    columns = {"events claimed/s": _rate, "p50 ms": _ms("p50_ms"), "p99 ms": _ms("p99_ms")}
    return _table(results, "claimers", "50 who claim at once", columns, label_first=True)


def _memory(results: Results) -> Table:
    columns = {
        "MB after a tenth": _plain("before_mb"),
        "MB at the end": _plain("after_mb"),
        "most MB": _plain("most_mb"),
        "growth %": _plain("growth_percent"),
    }
    return _table(results, "memory", "Memory of a worker", columns, label_first=True)


def _beside_pruning(results: Results) -> Table:
    columns = {
        "p50 ms": _ms("p50_ms"),
        "p99 ms": _ms("p99_ms"),
        "max ms": _ms("max_ms"),
        "pruned": _plain("pruned", 0),
        "a second": _plain("pruned_per_second", 0),
    }
    title = "Lateness beside the pruning of the same worker"
    return _table(results, "beside_pruning", title, columns, label_first=True)


def _come_and_gone(results: Results) -> Table:
    columns = {
        "tables MB, full": _plain("tables_mb", 0),
        "indexes MB, full": _plain("indexes_mb", 0),
        "tables MB, pruned": _plain("after_tables_mb", 0),
        "indexes MB, pruned": _plain("after_indexes_mb", 0),
        "dead rows": _plain("after_dead", 0),
        "tables MB, vacuumed": _plain("vacuumed_tables_mb", 0),
        "indexes MB, vacuumed": _plain("vacuumed_indexes_mb", 0),
        "pruned by hand/s": _rate,
    }
    return _table(results, "come_and_gone", "Sizes after finished events came and went", columns, label_first=True)


def _rules(results: Results) -> Table:
    columns = {
        "Duly": _plain("duly_us"),
        _version(results, "cronsim"): _plain("cronsim_us"),
        _version(results, "croniter"): _plain("croniter_us"),
        "Duly, parsing it first": _plain("unseen_us"),
    }
    return _table(results, "rules", "Rules: µs to the next occurrence", columns, label_first=True)


def _changes(results: Results) -> Table:
    rows = []
    for row in results.of("changes"):
        answers = zip(*(row.medians(name) for name in ("duly", "cronsim", "croniter")), strict=True) if row.runs else ()
        for change, right in zip(CHANGES, answers, strict=False):
            what = f"`{change.expression}`, {change.title}, {change.timezone}"
            rows.append([what, *["right" if one else "wrong" for one in right]])
    columns = ["", "Duly", _version(results, "cronsim"), _version(results, "croniter")]
    return Table("changes", "Rules: when clocks change", columns, rows)


def _due(results: Results) -> Table:
    columns = {"schedules fired/s": _rate, "p50 ms": _ms("p50_ms"), "p99 ms": _ms("p99_ms"), "due": _events}
    return _table(results, "due", "Due schedules, 50 who claim at once", columns, label_first=True)


def _due_bare(results: Results) -> Table:
    columns = {"rows claimed/s": _rate, "p50 ms": _ms("p50_ms"), "p99 ms": _ms("p99_ms"), "due": _events}
    return _table(results, "due_bare", "The same by bare SQL on the smallest table", columns, label_first=True)


def _catch_up(results: Results) -> Table:
    columns = {
        "events fired": _events,
        "occurrences": lambda row: f"{row.numbers[0] * row.numbers[1]:,}",
        "seconds": _plain("seconds", 2),
        "events/s": _rate,
    }
    return _table(results, "catch_up", "Due schedules, one worker", columns, label_first=True)


def _webhooks(results: Results) -> Table:
    columns = {
        "deliveries/s": _rate,
        "worker CPU µs each": _plain("client_us_per_event"),
        "server CPU µs each": _plain("server_us_per_event"),
        "bare loop/s": _plain("bare_per_second", 0),
        "its CPU µs each": _plain("bare_us_per_event"),
        "of the bare loop": lambda row: f"{row.median('bare_percent'):.0f} %",
    }
    return _table(results, "webhooks", "Webhooks to a receiver on the same machine", columns, label_first=True)


def _timers(results: Results) -> Table:
    columns = {
        "commands/s": _plain("commands_per_second", 0),
        "service CPU µs each": _plain("command_us"),
        "bare consumer/s": _plain("bare_commands_per_second", 0),
        "of it": lambda row: f"{row.median('commands_percent'):.0f} %",
        "events/s": _rate,
        "service CPU µs each ": _plain("event_us"),
        "bare publisher/s": _plain("bare_events_per_second", 0),
        "of that": lambda row: f"{row.median('events_percent'):.0f} %",
        "p50 ms late": _ms("p50_ms"),
        "p99 ms late": _ms("p99_ms"),
        "max ms late": _ms("max_ms"),
    }
    return _table(results, "timers", "The timer service on NATS JetStream", columns, label_first=True)


def _import_users(results: Results) -> Table:
    columns = {
        "users/s": _rate,
        "slowest tenth, users/s": _plain("slowest_per_second", 0),
        "plain COPY, rows/s": _plain("copied_per_second", 0),
        "COPY is faster": lambda row: f"{row.median('copy_ratio'):.1f}×",
        "MB after a tenth": _plain("before_mb"),
        "MB at the end": _plain("after_mb"),
        "growth %": _plain("growth_percent"),
    }
    return _table(results, "import_users", "Import of users from a file", columns, label_first=True)


def _morning(results: Results) -> Table:
    columns = {
        "p50 ms": _ms("p50_ms"),
        "p99 ms": _ms("p99_ms"),
        "max ms": _ms("max_ms"),
        "all done, s after the last was due": _plain("after_last_s", 2),
        "events/s": lambda row: "–" if row.numbers[1] else _rate(row),
        **_COSTS,
    }
    return _table(results, "morning", "The busiest morning: birthdays, one worker", columns, label_first=True)


def _quiet(results: Results) -> Table:
    columns = {
        "p50 ms": _ms("p50_ms"),
        "p99 ms": _ms("p99_ms"),
        "max ms": _ms("max_ms"),
        "of so many": _plain("beside", 0),
        "the other's events/s": lambda row: _rate(row) if row.numbers[0] else "–",
    }
    return _table(results, "quiet", "A quiet tenant beside a flooding one, one worker", columns, label_first=True)


def _worst(results: Results) -> Table:
    columns = {
        "requests alone, p99 ms": _plain("request_alone_p99_ms", 1),
        "beside, p99 ms": _plain("request_p99_ms", 1),
        "times": _plain("request_times", 1),
        "lateness alone, p99 ms": _plain("late_alone_p99_ms", 1),
        "lateness beside, p99 ms": _plain("late_p99_ms", 1),
        "times as late": _plain("late_times", 1),
    }
    title = "A quiet tenant beside one at its worst, one server with its worker"
    return _table(results, "worst", title, columns, label_first=True)


def _reads(results: Results) -> Table:
    measured = [row for row in results.of("reads") if row.runs]
    figures = [row.medians(figure) for row in measured for figure in ("p50_ms", "p99_ms")]
    columns = ["", *(f"{row.label}, {figure} ms" for row in measured for figure in ("p50", "p99"))]
    rows = [[name, *(f"{each:.2f}" for each in values)] for name, *values in zip(QUESTIONS, *figures, strict=True)]
    many = measured[0].numbers[0] if measured else 0
    return Table("reads", f"Looking among {many:,} events", columns, rows if measured else [])


def _http_creates(results: Results) -> Table:
    columns = {
        "single timers/s": _plain("singles_per_second", 0),
        "p50 ms": _plain("p50_ms"),
        "p99 ms": _plain("p99_ms"),
        "API CPU µs each": _plain("api_us_per_request", 0),
        "server CPU µs each": _plain("server_us_per_request", 0),
        "bare application/s": lambda row: _plain("bare_per_second", 0)(row) if row.median("bare_per_second") else "–",
        "of it": lambda row: f"{row.median('bare_percent'):.0f} %" if row.median("bare_percent") else "–",
        "timers/s, 1,000 a request": _plain("bulk_per_second", 0),
    }
    return _table(
        results, "http_creates", "Timers over HTTP, one server process, 16 connections", columns, label_first=True
    )


def _http_reads(results: Results) -> Table:
    measured = [row for row in results.of("http_reads") if row.runs]
    figures = [row.medians(figure) for row in measured for figure in ("p50_ms", "p99_ms")]
    columns = ["", *(f"{row.label}, {figure} ms" for row in measured for figure in ("p50", "p99"))]
    rows = [
        [name, *(f"{each:.1f}" for each in values)] for name, *values in zip(http_questions(1), *figures, strict=True)
    ]
    many = measured[0].numbers[0] if measured else 0
    return Table("http_reads", f"Looking among {many:,} events over HTTP", columns, rows if measured else [])


def _http_memory(results: Results) -> Table:
    columns = {
        "at a tenth MB": _plain("before_mb"),
        "at the end MB": _plain("after_mb"),
        "most MB": _plain("most_mb"),
        "growth": lambda row: f"{row.median('growth_percent'):+.1f} %",
    }
    return _table(results, "http_memory", "Memory of a server of the API", columns, label_first=True)


def _version(results: Results, library: str) -> str:
    return f"{library} {results.machine.get('libraries', {}).get(library, '')}".rstrip()


# -- cells

Cell = Callable[[Row], str]


def _table(
    results: Results, workload: str, title: str, columns: dict[str, Cell], *, label_first: bool = False
) -> Table:
    labels = list(dict.fromkeys(row.label for row in results.of(workload)))
    several = len(labels) > 1 and not label_first
    rows = []
    for label in labels:
        found = sorted(results.of(workload, label), key=_best_first)
        for row in found:
            name = row.label if label_first else row.title
            lead = [name, row.label] if several else [name]
            cells = [cell(row) for cell in columns.values()] if row.runs else [row.reason or "", *[""] * 9]
            rows.append([*lead, *cells[: len(columns)]])
    lead = ["", ""] if several else [""]
    return Table(workload, title, [*lead, *columns], rows)


def _best_first(row: Row) -> float:
    """The sort key of a row: peers by the main figure of the workload, rows without figures last. Workloads of Duly
    alone keep their order."""
    if not row.runs:
        return float("inf")
    if row.workload in ("insert", "drain"):
        return -row.median("events_per_second")
    by = {"lateness": "p99_ms", "idle": "cpu_percent"}
    return row.median(by[row.workload]) if row.workload in by else 0


def _rate(row: Row) -> str:
    return _spread(row, "events_per_second", "{:,.0f}")


def _ms(figure: str) -> Cell:
    return lambda row: _spread(row, figure, "{:,.2f}" if row.median(figure) < 10 else "{:,.0f}")


def _plain(figure: str, digits: int = 1) -> Cell:
    return lambda row: _spread(row, figure, f"{{:,.{digits}f}}")


def _spread(row: Row, figure: str, form: str) -> str:
    values = row.values(figure)
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({form.format(min(values))} – {form.format(max(values))})"


def _events(row: Row) -> str:
    return f"{row.numbers[0]:,}"


def _cost(figure: str) -> Cell:
    return lambda row: f"{row.median(figure):,.0f}" if row.median(figure) else "–"


_COSTS: dict[str, Cell] = {
    "client µs/event": _cost("client_us_per_event"),
    "server µs/event": _cost("server_us_per_event"),
}


def as_markdown(table: Table) -> Iterator[str]:
    """The lines of a table in GitHub's Markdown."""
    yield "| " + " | ".join(table.columns) + " |"
    yield "|" + "|".join("---" if n == 0 else "---:" for n in range(len(table.columns))) + "|"
    for row in table.rows:
        yield "| " + " | ".join(row) + " |"
