"""Payloads and other values as people type them: JSON, quoted for the shell."""

from typing import Any

import msgspec

from duly.errors import Invalid, Problem


def read_payload(written: str, option: str = "payload") -> Any:
    try:
        return msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(
            [Problem(option, f"is not JSON: {error}; quote it for the shell, as in --{option} '{{\"cart\": 9}}'")]
        ) from None
