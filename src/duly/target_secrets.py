"""Encrypts the secrets of targets, so that access to the database alone does not reveal them."""

import base64
from typing import Any

import msgspec

from duly.decide.targets.secrets import MAKE_KEY, SecretKeys
from duly.errors import Unsealed
from duly.extras import install

ANEW = "create the target again, with a secret and with all its headers"


class Sealed(msgspec.Struct, frozen=True):
    """The secret part of a target. It contains the target's tenant and name, so that the sealed text of one target
    cannot be copied into the row of another."""

    tenant: str
    name: str
    secrets: list[tuple[str, float | None]] = []  # each with its expiry in seconds since 1970; the newest first
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Sealed({self.tenant!r}, {self.name!r}, ***)"


class Seal:
    def __init__(self, keys: SecretKeys) -> None:
        self._keys = keys

    def close(self, sealed: Sealed) -> str:
        return str(self._fernet().encrypt(msgspec.json.encode(sealed)), "ascii")

    def open(self, text: str, tenant: str, name: str) -> Sealed:
        fernet = self._fernet()
        from cryptography.fernet import InvalidToken

        try:
            sealed = msgspec.json.decode(fernet.decrypt(text.encode()), type=Sealed)
        except (InvalidToken, msgspec.MsgspecError):
            raise Unsealed(
                f"target {name!r} was encrypted with another DULY_SECRET_KEY: set both keys, as NEW,OLD, or {ANEW}"
            ) from None
        if (sealed.tenant, sealed.name) != (tenant, name):
            raise Unsealed(f"the stored secrets of target {name!r} were encrypted for another target: {ANEW}")
        return sealed

    def is_of_first_key(self, text: str) -> bool:
        """Whether *text* was sealed with the current key, and not with an older key that only opens."""
        self._fernet()  # raises if the key or the package is missing
        from cryptography.fernet import Fernet, InvalidToken

        try:
            Fernet(base64.urlsafe_b64encode(self._keys.derived("seal")[0])).decrypt(text.encode())
        except InvalidToken:
            return False
        return True

    def _fernet(self) -> Any:
        if not self._keys:
            raise Unsealed(f"the secrets of targets are encrypted with DULY_SECRET_KEY, which is not set: {MAKE_KEY}")
        try:
            from cryptography.fernet import Fernet, MultiFernet
        except ImportError:
            raise Unsealed(
                "the secrets of targets are encrypted with the package cryptography, which is not installed: "
                + install("webhooks")
            ) from None

        return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in self._keys.derived("seal")])
