"""The name and colour of an instance of Duly, so that nobody acts on the wrong system."""

import re
from typing import NamedTuple

EXAMPLES = "a name, or a name and a colour, such as production=#b42318"

DEFAULT_COLOUR = "#8a5200"
"""Of an instance that has a name and no colour."""

MOST_CHARACTERS = 30
"""Characters of a name: it stands in the header of each page."""

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


class Instance(NamedTuple):
    """A name, and a colour as ``#rrggbb``."""

    name: str
    colour: str = DEFAULT_COLOUR

    def __str__(self) -> str:
        return f"{self.name}={self.colour}"


def read_instance(written: str) -> Instance:
    """Reads ``production`` or ``production=#b42318``; raises ValueError for anything else."""
    name, equals, colour = (part.strip() for part in written.partition("="))
    if not name or len(name) > MOST_CHARACTERS or not name.isprintable():
        raise ValueError(f"the name must have 1 to {MOST_CHARACTERS} printable characters")
    if not equals:
        return Instance(name)
    if not _COLOUR.fullmatch(colour):
        raise ValueError("the colour must be # and six hexadecimal digits")
    return Instance(name, colour.lower())
