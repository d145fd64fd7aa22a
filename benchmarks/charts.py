"""Charts of the results: drain, insert, the distribution of lateness, and growth."""

import math
from collections.abc import Iterable
from pathlib import Path

from benchmarks.results import Results, Row
from benchmarks.svg import AHEAD, FAINT, LINES, OTHER, OWN, WIDTH, Drawing
from benchmarks.workloads import QUANTILES

NAMES_WIDTH = 250  # pixels for names on the left
ROW_HEIGHT = 26  # pixels
RATE = "events_per_second"


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draws each chart for which there are results, and returns the files."""
    drawn = []
    for name, draw in (("drain", _drain), ("insert", _insert), ("lateness", _lateness), ("growth", _growth)):
        path = folder / f"{name}.svg"
        if draw(results, path):
            drawn.append(path)
    return drawn


def _drain(results: Results, path: Path) -> bool:
    groups = [(label, _ranked(results.of("drain", label))) for label in ("1 process", "2 processes")]
    return _bars(path, "Events handled per second", "due events, a handler that does nothing; PostgreSQL", groups)


def _insert(results: Results, path: Path) -> bool:
    groups = [("", _ranked(results.of("insert")))]
    return _bars(path, "Future events inserted per second", "by the best way each documents; PostgreSQL", groups)


def _ranked(rows: Iterable[Row]) -> list[Row]:
    found = [row for row in rows if row.runs and "sqlite" not in row.peer]
    return sorted(found, key=lambda row: -row.median(RATE))


def _bars(path: Path, title: str, note: str, groups: list[tuple[str, list[Row]]]) -> bool:
    groups = [(label, rows) for label, rows in groups if rows]
    if not groups:
        return False
    drawing = Drawing(title, note)
    most = max(row.median(RATE) for _, rows in groups for row in rows)
    y = 60.0
    for label, rows in groups:
        if label:
            drawing.text(0, y + 13, label, bold=True)
            y += ROW_HEIGHT
        for row in rows:
            own, rate = row.peer.startswith("duly"), row.median(RATE)
            width = (WIDTH - NAMES_WIDTH - 80) * rate / most
            drawing.text(NAMES_WIDTH - 10, y + 14, row.title, anchor="end", bold=own)
            drawing.bar(NAMES_WIDTH, y, width, ROW_HEIGHT - 8, OWN if own else OTHER)
            drawing.text(NAMES_WIDTH + width + 8, y + 14, f"{rate:,.0f}")
            y += ROW_HEIGHT
        y += 12
    drawing.write(path, y)
    return True


def _lateness(results: Results, path: Path) -> bool:
    """Draws the distribution of lateness. The x axis is the share of events, stretched towards the latest; the y axis
    is milliseconds, on a logarithmic scale."""
    rows = sorted((row for row in results.of("lateness") if row.runs), key=lambda row: row.median("p99_ms"))
    if not rows:
        return False
    drawing = Drawing("How late events start", "milliseconds, by share of the events; lower is better")
    left, top, right, bottom = 60, 60, WIDTH - 190, 380
    shown = [share for share in QUANTILES if share <= 0.999]

    def across(share: float) -> float:
        return left + (right - left) * -math.log10(1 - share) / 3

    def down(ms: float) -> float:
        return bottom - (bottom - top) * (math.log10(min(max(ms, 0.1), 10_000)) + 1) / 5

    for ms in (0.1, 1, 10, 100, 1000, 10_000):
        drawing.line([(left, down(ms)), (right, down(ms))], FAINT, thick=1)
        drawing.text(left - 8, down(ms) + 4, f"{ms:g}", size=12, anchor="end")
    for share in (0, 0.5, 0.9, 0.99, 0.999):
        drawing.line([(across(share), top), (across(share), bottom)], FAINT, thick=1)
        drawing.text(across(share), bottom + 18, f"{100 * share:g} %", size=12, anchor="middle")
    names = []
    colours = iter(LINES * len(rows))
    for row in rows:
        latenesses = dict(zip(QUANTILES, row.medians("quantiles_ms"), strict=True))
        own = row.peer.startswith("duly")
        colour = (AHEAD if "lookahead" in row.peer else OWN) if own else next(colours)
        points = [(across(share), down(latenesses[share])) for share in shown]
        drawing.line(points, colour, thick=3 if own else 1.5, dashed="sqlite" in row.peer)
        names.append((points[-1][1], row.title, colour, own))
    _name_lines(drawing, right + 10, names)
    drawing.write(path, bottom + 34)
    return True


def _name_lines(drawing: Drawing, x: float, names: list[tuple[float, str, str, bool]]) -> None:
    """Writes the names beside the ends of their lines, moved apart where they would overlap."""
    y = 0.0
    for wanted, title, colour, own in sorted(names):
        y = max(wanted, y + 16)
        drawing.text(x, y + 4, title, size=12, bold=own, ink=colour)


def _growth(results: Results, path: Path) -> bool:
    rows = [row for row in results.of("claim") if row.runs]
    if not rows:
        return False
    drawing = Drawing("How long a claim of 100 takes", "milliseconds: median, and the slowest of a hundred")
    names = 370
    most = max(row.median("p99_ms") for row in rows)
    y = 60.0
    for row in rows:
        p50, p99 = row.median("p50_ms"), row.median("p99_ms")
        scale = (WIDTH - names - 110) / most
        drawing.text(names - 10, y + 14, f"beside {row.label}", anchor="end")
        drawing.bar(names, y, scale * p99, ROW_HEIGHT - 8, OTHER)
        drawing.bar(names, y, scale * p50, ROW_HEIGHT - 8, OWN)
        drawing.text(names + scale * p99 + 8, y + 14, f"{p50:.2f} · {p99:.2f}")
        y += ROW_HEIGHT
    drawing.write(path, y + 8)
    return True
