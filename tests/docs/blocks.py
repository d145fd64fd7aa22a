"""Reads the code blocks of the documentation, with what each is said to print."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    heading: str
    number: int  # among the blocks of its page
    language: str
    text: str
    prints: str | None  # the ``text`` block that follows it, with nothing but a line of words between

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.number}-{self.heading}".replace(" ", "_")


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """The blocks of some languages, in order."""
    text = page.read_text(encoding="utf-8")
    fences = list(_FENCE.finditer(text))
    headings = [(found.start(), found[1]) for found in _HEADING.finditer(_without_fences(text, fences))]
    found = []
    for number, fence in enumerate(fences, 1):
        if fence[1] in languages:
            heading = max(((at, title) for at, title in headings if at < fence.start()), default=(0, ""))[1]
            found.append(Block(page, heading, number, fence[1], fence[2], _printed(text, fences, number - 1)))
    return found


def all_blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page, *languages)]


def named(block: Block) -> str | None:
    """A block that begins with ``# shop.py`` is a module of that name, for the sessions and tests on its page."""
    found = re.match(r"# ([\w/.]+\.py)\n", block.text)
    return found and found[1]


def is_test(block: Block) -> bool:
    return re.search(r"^(async )?def test_", block.text, re.MULTILINE) is not None


def put_modules(page: Path, folder: Path, written: Callable[[str], str]) -> None:
    """Writes the modules of a page to a folder; *written* may change their text."""
    for module in blocks_of(page, "python"):
        if name := named(module):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            for package in list((folder / name).relative_to(folder).parents)[:-1]:
                (folder / package / "__init__.py").touch()
            (folder / name).write_text(written(module.text), encoding="utf-8")


def _without_fences(text: str, fences: list[re.Match[str]]) -> str:
    """The same length, so that places stay the same; a comment in code is no heading."""
    for fence in fences:
        text = text[: fence.start()] + "\n" * len(fence[0]) + text[fence.end() :]
    return text


def _printed(text: str, fences: list[re.Match[str]], index: int) -> str | None:
    if index + 1 == len(fences) or fences[index + 1][1] != "text":
        return None
    between = text[fences[index].end() : fences[index + 1].start()]
    return fences[index + 1][2] if len(between.strip().splitlines()) <= 1 else None
