"""Makes the picture of the demo for the README: runs ``duly demo`` for some seconds, and draws its last screen as SVG.

python -m tools.demo_picture docs/img/demo.svg
"""

import asyncio
import io
import logging
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from rich.console import Console

from duly.cli.demo.commands import run
from duly.cli.demo.views import Screen

WIDTH, HEIGHT = 100, 30
"""Columns and rows of the terminal."""

SPAN = timedelta(seconds=9)
"""How long the demo runs: at its end, something of each kind has fired, and some events still wait."""

FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""The SVG around the screen: without fonts from other hosts, unlike Rich's own."""


def picture() -> str:
    logging.getLogger("duly").addHandler(logging.NullHandler())
    logging.getLogger("duly").propagate = False
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/duly-demo.db"
        terminal = Console(
            file=io.StringIO(), force_terminal=True, width=WIDTH, height=HEIGHT, markup=False, highlight=False
        )
        view = Screen(url, terminal)
        asyncio.run(run(url, view, SPAN))
    record = Console(
        file=io.StringIO(), force_terminal=True, width=WIDTH, height=HEIGHT, record=True, markup=False, highlight=False
    )
    record.print(view.drawn())
    return record.export_svg(title="duly demo", code_format=FRAME, unique_id="demo")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
