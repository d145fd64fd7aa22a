"""Writes small SVG charts of text, bars and lines. The colours are legible on light and on dark pages."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

OWN = "#d9730d"  # Duly
OTHER = "#7d8a97"  # peers
INK = "#6f7782"  # text
FAINT = "#6f778255"  # grid lines
AHEAD = "#c9a227"  # Duly with look-ahead
LINES = ("#3b82c4", "#3f9c6b", "#9a6bc2", "#c2567a", "#4f9d9d", "#8a8f98")

WIDTH = 760
FONT = "font-family='ui-sans-serif, system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


class Drawing:
    """An SVG image with a transparent background."""

    def __init__(self, title: str, note: str = "") -> None:
        self._parts: list[str] = []
        self._title = title
        self.text(0, 18, title, size=16, bold=True)
        if note:
            self.text(0, 38, note, size=12)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 13,
        anchor: str = "start",
        bold: bool = False,
        ink: str = INK,
    ) -> None:
        weight = " font-weight='600'" if bold else ""
        self._parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' fill='{ink}'{weight}>"
            f"{escape(words)}</text>"
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 1):.1f}' height='{height}' rx='2' fill='{colour}'/>"
        )

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, *, thick: float = 2, dashed: bool = False
    ) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self._parts.append(
            f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{thick}' "
            f"stroke-linejoin='round'{dash}/>"
        )

    def write(self, path: Path, height: float) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        body = "\n".join(self._parts)
        path.write_text(
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height:.0f}' "
            f"viewBox='0 0 {WIDTH} {height:.0f}' role='img' aria-label='{escape(self._title, quote=True)}' {FONT}>\n"
            f"{body}\n</svg>\n"
        )
