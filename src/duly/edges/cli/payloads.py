"""Payloads and other values as people type them: JSON, quoted for the shell."""

from typing import Any

import msgspec

from duly.errors import Invalid, Problem

EXAMPLES = {"payload": '{"cart": 9}', "target": '{"webhook": "https://…"}', "attributes": '{"plan": "gold"}'}


def read_payload(written: str, option: str = "payload") -> Any:
    try:
        return msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError) as error:
        example = f"--{option} '{EXAMPLES[option]}'"
        raise Invalid([Problem(option, f"is not JSON: {error}; quote it for the shell, as in {example}")]) from None
