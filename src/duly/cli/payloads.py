"""Reads JSON arguments, quoted for the shell, and files."""

import sys
from pathlib import Path
from typing import Any

import msgspec

from duly.errors import Invalid, Misuse, NotFound, Problem

STDIN = "-"

EXAMPLES = {"payload": '{"cart": 9}', "target": '{"webhook": "https://…"}', "attributes": '{"plan": "gold"}'}


def read_payload(written: str, option: str = "payload") -> Any:
    try:
        return msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError) as error:
        example = f"--{option} '{EXAMPLES[option]}'"
        raise Invalid(
            [Problem(option, f"is not valid JSON: {error}; quote it for the shell, as in {example}")]
        ) from None


def read_text(file: str) -> str:
    """The text of a file, or of standard input."""
    try:
        raw = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Misuse(f"{file} is not text in UTF-8: {error.reason} at byte {error.start:,}") from None
    except OSError as error:
        raise NotFound(f"cannot read {file}: {error.strerror}") from None
