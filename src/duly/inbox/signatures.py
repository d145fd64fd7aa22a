"""Standard Webhooks signatures: an HMAC over id, timestamp and body, with a secret that both sides know."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable

from duly.errors import Misuse

PREFIX = "whsec_"
SHORTEST_KEY = 24
"""Bytes of a secret at least, by the Standard Webhooks specification."""


def key_of(secret: object) -> bytes:
    """The key that a secret such as ``whsec_MfKQ9r8G…`` encodes. Error messages never contain the secret."""
    if not isinstance(secret, str):
        kind = type(secret).__name__
        raise Misuse(f"an inbox got {kind} for a secret: give it the secret of the target, a text like whsec_MfKQ9r8G…")
    if not secret.strip():
        raise Misuse("an inbox got an empty secret: give it the secret of the target, a text like whsec_MfKQ9r8G…")
    digits = secret.strip().removeprefix(PREFIX).rstrip("=")
    try:
        key = b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise Misuse("an inbox got a secret that is not base64: copy the whole secret of the target, with whsec_")
    if len(key) < SHORTEST_KEY:
        raise Misuse(
            f"an inbox got a secret of {len(key)} bytes; secrets have at least {SHORTEST_KEY}: copy the whole secret"
        )
    return key


def sign(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    digest = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{b64encode(digest).decode()}"


def any_matches(given: Iterable[str], expected: Iterable[str]) -> bool:
    """Whether a given signature equals an expected one. Signatures are compared as text, so that no other base64
    spelling of the same bytes passes; all pairs are compared, so that the duration reveals nothing."""
    known = [signature.encode() for signature in expected]
    return True in [hmac.compare_digest(one.encode(), other) for one in given for other in known]
