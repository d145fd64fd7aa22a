"""Webhook secrets, shown once and stored encrypted, and the keys for that."""

import base64
import hashlib
import hmac
from collections.abc import Sequence

from duly.errors import Problem

PREFIX = "whsec_"
"""The beginning of a webhook secret, by Standard Webhooks."""

LEAST = 24
"""Bytes of a webhook secret, at least, by Standard Webhooks."""

MOST = 64
"""Bytes of a webhook secret, at most, by Standard Webhooks."""

SHORTEST_KEY = 32
"""Characters of an encryption key, at least."""

MAKE_KEY = "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class SecretKeys:
    """The keys that encrypt secrets: the newest first, then older ones, which still decrypt their own secrets. Never
    shown."""

    def __init__(self, written: str | None) -> None:
        self._keys = [key.strip() for key in (written or "").split(",") if key.strip()]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __repr__(self) -> str:
        return "Keys(***)" if self._keys else "Keys(None)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretKeys) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(tuple(self._keys))

    @property
    def too_short(self) -> bool:
        return any(len(key) < SHORTEST_KEY for key in self._keys)

    def derived(self, purpose: str) -> list[bytes]:
        """32 bytes for a purpose, derived from each key."""
        return [hashlib.blake2b(purpose.encode(), key=_short(key), digest_size=32).digest() for key in self._keys]

    def signing(self, tenant: str, origin: str) -> list[str]:
        """The secrets that sign webhooks to an origin without a stored target."""
        return [written(key) for key in self.derived(f"webhooks\0{tenant}\0{origin}")]


def _short(key: str) -> bytes:
    """The key as 64 bytes, the most that BLAKE2b accepts."""
    return hashlib.sha512(key.encode()).digest()


def written(key: bytes) -> str:
    """A secret as text, as users see it."""
    return PREFIX + base64.b64encode(key).decode()


def secret_problem(path: str, secret: object) -> Problem | None:
    if not isinstance(secret, str):
        return Problem(path, f"expected text, not {type(secret).__name__}")
    try:
        size = len(_read(secret))
    except ValueError:
        return Problem(path, f"expected {PREFIX} and {LEAST} to {MOST} bytes in base64")
    if not LEAST <= size <= MOST:
        return Problem(path, f"has {size} bytes; expected {LEAST} to {MOST}")
    return None


def signature(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> str:
    """The ``webhook-signature`` header of Standard Webhooks, with one signature for each secret."""
    signed = b"%s.%d.%s" % (id.encode(), timestamp, body)
    return " ".join(f"v1,{_mac(secret, signed)}" for secret in secrets)


def _mac(secret: str, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(_read(secret), signed, "sha256")).decode()


def _read(secret: str) -> bytes:
    """The bytes of a secret, with or without base64 padding."""
    bare = secret.removeprefix(PREFIX).rstrip("=")
    return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
