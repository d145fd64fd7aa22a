"""Tags of schedules: short names by which people select them. They are stored sorted, each once."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from duly.errors import Problem

TAG = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,49}$"
"""A tag: at most 50 characters, so that a list of schedules has room for some."""

MOST_TAGS = 20
"""Tags of one schedule."""

_TAG = re.compile(TAG.removesuffix("$") + r"\Z")

EXPECTED = "1 to 50 letters, digits, '.', '_', ':' or '-', beginning with a letter or digit"


def tag_problems(field: str, tag: Any) -> list[Problem]:
    if isinstance(tag, str) and _TAG.match(tag):
        return []
    return [Problem(field, f"expected a tag of {EXPECTED}, not {tag!r:.60}")]


def tags_problems(tags: Any, field: str = "tags") -> list[Problem]:
    """The problems of a list of tags."""
    if isinstance(tags, str) or not isinstance(tags, list | tuple | set | frozenset):
        return [Problem(field, f"expected a list of tags, not {tags!r:.60}")]
    problems = [problem for place, tag in enumerate(tags) for problem in tag_problems(f"{field}[{place}]", tag)]
    if len(set(map(str, tags))) > MOST_TAGS:
        problems.append(Problem(field, f"a schedule can have at most {MOST_TAGS} tags, not {len(tags)}"))
    return problems


def tags_text(tags: Iterable[str] | None) -> str | None:
    """Tags as they are stored; None if there are none."""
    return msgspec.json.encode(sorted(set(tags))).decode() if tags else None


def read_tags(stored: str | None) -> tuple[str, ...]:
    """Stored tags. A row that was edited by hand shows the texts that it has."""
    if stored is None:
        return ()
    try:
        found = msgspec.json.decode(stored)
    except ValueError:
        return ()
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()
