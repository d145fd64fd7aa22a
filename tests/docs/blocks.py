"""Reads the code blocks of the documentation, with what each is said to print."""

import re
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
