"""Keys of the HTTP API: the tenant that they belong to, and the acts that they allow."""

import base64
import hashlib
from datetime import datetime
from enum import StrEnum

import msgspec

from duly.records.target import RATE
from duly.records.wire.forms import JsonForm

PREFIX = "duly_"
"""The first characters of every key."""

HINT_LENGTH = len(PREFIX) + 6
"""Characters of a key that are stored in clear text, so that people recognise it: 36 of its 256 bits."""

SECRET_BYTES = 32
"""Random bytes of a key: 256 bits cannot be guessed."""

KEY_LENGTH = len(PREFIX) + 43
"""Characters of a key: 32 bytes are 43 characters in base64 without padding."""


class Scope(StrEnum):
    """The acts that a key allows in its tenant. Each scope includes those before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def covers(self, other: "Scope") -> bool:
        order = list(Scope)
        return order.index(self) >= order.index(other)


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """The stored facts about a key, without the key itself."""

    id: str
    tenant: str
    name: str
    scope: Scope
    hint: str  # the first characters of the key
    created: datetime
    created_by: str | None = None
    expires: datetime | None = None
    revoked: datetime | None = None
    last_used: datetime | None = None
    rate: float | None = None  # requests per second; None: the server's default
    all_tenants: bool = False  # whether a request may name another tenant, with the same scope there

    def state(self, now: datetime) -> str:
        """The state of the key: active, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "active" if self.expires is None or now < self.expires else "expired"


class MadeKey(msgspec.Struct, frozen=True):
    """A key that was just created. Its secret is in no other response, and in no log."""

    key: ApiKey
    secret: str

    def __repr__(self) -> str:
        return f"MadeKey({self.key!r}, {hint_of(self.secret)!r}…)"


def write_key(luck: bytes) -> str:
    """The text form of a key, from 256 random bits."""
    return PREFIX + base64.urlsafe_b64encode(luck).rstrip(b"=").decode()


def looks_like_a_key(secret: object) -> bool:
    return isinstance(secret, str) and secret.startswith(PREFIX) and len(secret) == KEY_LENGTH and secret.isascii()


def hash_of(secret: str) -> str:
    """The stored hash of a key. It needs no salt and no slow hash function: 256 bits cannot be guessed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def hint_of(secret: str) -> str:
    return secret[:HINT_LENGTH]


KEY_JSON = JsonForm(ApiKey, parts={"rate": RATE})
"""The JSON of a key, without its state, which depends on the current time."""
