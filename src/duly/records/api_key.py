"""Keys of the HTTP API: whose they are, and what they allow."""

import base64
import hashlib
from datetime import datetime
from enum import StrEnum

import msgspec

from duly.records.target import RATE
from duly.records.wire.forms import JsonForm

BEGINS = "duly_"
HINT = len(BEGINS) + 6
"""So many characters of a key are kept for people to know it by: 36 of its 256 bits."""

BYTES = 32
LENGTH = len(BEGINS) + 43


class Scope(StrEnum):
    """What a key allows in its tenant. Each allows what those before it do."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def covers(self, other: "Scope") -> bool:
        order = list(Scope)
        return order.index(self) >= order.index(other)


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a key; not the key."""

    id: str
    tenant: str
    name: str
    scope: Scope
    hint: str  # how it begins
    created: datetime
    created_by: str | None = None
    expires: datetime | None = None
    revoked: datetime | None = None
    last_used: datetime | None = None
    rate: float | None = None  # requests a second; None: as the server allows
    all_tenants: bool = False  # may name another tenant, and do there what its scope allows

    def state(self, now: datetime) -> str:
        """active, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "active" if self.expires is None or now < self.expires else "expired"


class MadeKey(msgspec.Struct, frozen=True):
    """A key that was just made. Its secret is in no other answer, and in no log."""

    key: ApiKey
    secret: str

    def __repr__(self) -> str:
        return f"MadeKey({self.key!r}, {hint_of(self.secret)!r}…)"


def write_key(luck: bytes) -> str:
    """A key as people carry it, from 256 bits of luck."""
    return BEGINS + base64.urlsafe_b64encode(luck).rstrip(b"=").decode()


def looks_like_a_key(secret: object) -> bool:
    return isinstance(secret, str) and secret.startswith(BEGINS) and len(secret) == LENGTH and secret.isascii()


def hash_of(secret: str) -> str:
    """What is stored. It needs no salt and no slowness: 256 bits are not guessed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def hint_of(secret: str) -> str:
    return secret[:HINT]


KEY_JSON = JsonForm(ApiKey, parts={"rate": RATE})
"""What is known of a key. Whether it is still good depends on when that is asked."""
