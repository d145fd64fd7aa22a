"""The performance targets of Duly: ratios within one run if there is a peer to compare with, else absolute figures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.results import Results, Row

RATE, P50, P99 = "events_per_second", "p50_ms", "p99_ms"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and the measured value. ``met`` is None if there was no measurement or no peer to compare with."""

    what: str
    target: str
    found: str
    met: bool | None


def verdicts(results: Results) -> list[Verdict]:
    """The verdicts on the workloads of a run."""
    run = {row.workload for row in results.rows}
    return [verdict for workload, judge in _JUDGES.items() if workload in run for verdict in judge(results)]


def best_other(results: Results, workload: str, label: str = "") -> Row | None:
    """The row of the fastest peer other than Duly."""
    others = [row for row in results.of(workload, label) if row.runs and not row.peer.startswith("duly")]
    return max(others, key=lambda row: row.median(RATE), default=None)


def _drain(results: Results) -> Iterator[Verdict]:
    yield _ratio(results, "drain, 1 process", "drain", "1 process", 1.3)
    yield _ratio(results, "drain, 2 processes", "drain", "2 processes", 1.7)
    yield _least(results.find("drain", "duly_sqlite", "1 process"), "drain on SQLite", 20_000)


def _insert(results: Results) -> Iterator[Verdict]:
    yield _ratio(results, "bulk insert", "insert", "", 1.7)
    yield _least(results.find("insert", "duly"), "bulk insert", 60_000)


def _lateness(results: Results) -> Iterator[Verdict]:
    default, ahead = results.find("lateness", "duly"), results.find("lateness", "duly_lookahead")
    yield _under(default, "lateness, default, p99", P99, 10, "ms")
    yield _under(ahead, "lateness, look-ahead, p50", P50, 1, "ms")
    yield _under(ahead, "lateness, look-ahead, p99", P99, 5, "ms")


def _idle(results: Results) -> Iterator[Verdict]:
    for peer, title in (("duly", "default"), ("duly_lookahead", "look-ahead")):
        for label in ("1 worker", "10 workers"):
            row = results.find("idle", peer, label)
            yield _under(row, f"idle CPU of each, {title}, {label}", "cpu_percent", 0.5, "%")


def _growth(results: Results) -> Iterator[Verdict]:
    rows = list(results.of("claim"))
    by_place = dict(zip(("none", "some", "many", "held", "foreign"), rows, strict=False))
    base = by_place.get("none")
    for place, most in (("many", 1.5), ("held", 3.0), ("foreign", 1.5)):
        row = by_place.get(place)
        what = f"claim of 100, {row.label if row else place}"
        yield _against(row, base, what, most)
    yield _under(by_place.get("many"), "claim of 100, most future events, p99", P99, 10, "ms")


def _claimers(results: Results) -> Iterator[Verdict]:
    row = results.find("claimers", "duly", "batches of 10")
    yield _least(row, "50 claimers, batches of 10", 10_000)
    yield _under(row, "50 claimers, batches of 10, p99", P99, 100, "ms")


def _memory(results: Results) -> Iterator[Verdict]:
    row = next((row for row in results.of("memory") if row.runs), None)
    yield _under(row, f"memory over {row.label if row else 'a million events'}", "growth_percent", 10, "% more")


def _rules(results: Results) -> Iterator[Verdict]:
    for rule, most in (("`0 9 29 2 *`", 200), ("`@yearly`", 200), ("`*/5 9-17 * * MON-FRI`", 30)):
        yield _under(results.find("rules", "duly", rule), f"next occurrence of {rule}", "duly_us", most, "µs")


def _due(results: Results) -> Iterator[Verdict]:
    row = results.find("due", "duly", "batches of 10")
    what = f"50 claimers, {row.numbers[0] if row else 1000:,} due schedules"
    yield _least(row, what, 10_000)
    yield _under(row, f"{what}, p99", P99, 100, "ms")


def _catch_up(results: Results) -> Iterator[Verdict]:
    row = results.find("catch_up", "duly", "many due once")
    yield _least(row, f"one worker, {row.numbers[0] if row else 10_000:,} due schedules", 12_000)


def _import_users(results: Results) -> Iterator[Verdict]:
    row = next((row for row in results.of("import_users") if row.runs), None)
    what = f"import of {row.label if row else 'users'}"
    yield _least(row, what, 10_000)
    yield _under(row, f"{what}, memory", "growth_percent", 5, "% more")


def _morning(results: Results) -> Iterator[Verdict]:
    row = next((row for row in results.of("morning") if row.runs and not row.numbers[1]), None)
    yield _under(row, f"birthdays, {row.label if row else 'at one instant'}, all done", "seconds", 3, "s")


def _webhooks(results: Results) -> Iterator[Verdict]:
    row = results.find("webhooks", "duly", "PostgreSQL")
    target = "60 % of a bare aiohttp loop"
    yield _judged(row, "webhooks through the engine", "bare_percent", target, lambda value: value >= 60, "{:.0f} %")


def _timers(results: Results) -> Iterator[Verdict]:
    for peer, store in (("duly", "PostgreSQL"), ("duly_sqlite", "SQLite")):
        row = results.find("timers", peer, store)
        yield _under(row, f"a timer over NATS, from due to published, {store}, p99", P99, 50, "ms")


def _quiet(results: Results) -> Iterator[Verdict]:
    row = next((row for row in results.of("quiet") if row.runs and row.numbers[0] and row.peer == "duly"), None)
    yield _under(row, f"a quiet tenant, {row.label if row else 'beside a flood'}, p99", P99, 250, "ms")


def _worst(results: Results) -> Iterator[Verdict]:
    row = results.find("worst", "duly", "all of it at once")
    for figure, what in (("request_times", "requests"), ("late_times", "lateness")):
        yield _under(row, f"a quiet tenant beside one at its worst, {what}, p99 of its own alone", figure, 3, "×")


def _reads(results: Results) -> Iterator[Verdict]:
    for store in ("PostgreSQL", "SQLite"):
        row = next((row for row in results.of("reads", store) if row.runs), None)
        yield _under(row, f"the slowest question about events, {store}, p99", "worst_p99_ms", 50, "ms")


def _http_reads(results: Results) -> Iterator[Verdict]:
    for store in ("PostgreSQL", "SQLite"):
        row = next((row for row in results.of("http_reads", store) if row.runs), None)
        yield _under(row, f"the slowest question over HTTP, {store}, p99", "worst_p99_ms", 50, "ms")


def _http_memory(results: Results) -> Iterator[Verdict]:
    row = next((row for row in results.of("http_memory") if row.runs), None)
    yield _under(row, "growth of a server's memory over its requests", "growth_percent", 5, "%")


_JUDGES = {
    "drain": _drain,
    "insert": _insert,
    "lateness": _lateness,
    "idle": _idle,
    "claim": _growth,
    "claimers": _claimers,
    "memory": _memory,
    "rules": _rules,
    "due": _due,
    "catch_up": _catch_up,
    "import_users": _import_users,
    "morning": _morning,
    "webhooks": _webhooks,
    "timers": _timers,
    "quiet": _quiet,
    "worst": _worst,
    "reads": _reads,
    "http_reads": _http_reads,
    "http_memory": _http_memory,
}


# -- ways to judge


def _ratio(results: Results, what: str, workload: str, label: str, least: float) -> Verdict:
    own, other = results.find(workload, "duly", label), best_other(results, workload, label)
    if own is None or other is None:
        return Verdict(what, f"{least:g}× the best peer", "–", None)
    ratio = own.median(RATE) / other.median(RATE)
    found = f"{ratio:.2f}× {other.title} ({own.median(RATE):,.0f} to {other.median(RATE):,.0f}/s)"
    return Verdict(what, f"{least:g}× the best peer", found, ratio >= least)


def _against(row: Row | None, base: Row | None, what: str, most: float) -> Verdict:
    target = f"within {most:g}× of a claim beside nothing"
    if row is None or base is None or not row.runs or not base.runs:
        return Verdict(what, target, "–", None)
    ratio = row.median(P50) / base.median(P50)
    return Verdict(what, target, f"{ratio:.2f}× ({row.median(P50):.2f} to {base.median(P50):.2f} ms)", ratio <= most)


def _least(row: Row | None, what: str, least: float) -> Verdict:
    return _judged(row, what, RATE, f"{least:,.0f}/s", lambda value: value >= least, "{:,.0f}/s")


def _under(row: Row | None, what: str, figure: str, most: float, unit: str) -> Verdict:
    return _judged(row, what, figure, f"under {most:g} {unit}", lambda value: value < most, "{:.2f} " + unit)


def _judged(row: Row | None, what: str, figure: str, target: str, good: Callable[[float], bool], form: str) -> Verdict:
    if row is None or not row.runs:
        return Verdict(what, target, "–", None)
    value = row.median(figure)
    return Verdict(what, target, form.format(value), good(value))
