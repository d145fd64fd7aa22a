"""The base of the groups of verbs: the connection, and the check of the tenant."""

from typing import Any

import msgspec

from duly.client.protocol.connection import ServerConnection
from duly.errors import Misuse


class Nothing(msgspec.Struct):
    """An answer whose fields are not needed."""


NOTHING = msgspec.json.Decoder(Nothing)


class Group:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def _check(self, tenant: str | None) -> None:
        check_tenant(self._connection, tenant)


def check_tenant(connection: ServerConnection, tenant: str | None) -> None:
    """Refuses another tenant than the client's own: that of its key, or the one that the client was created for. None
    means the client's own."""
    if tenant is not None and tenant != connection.tenant:
        mine = "its key's tenant" if connection.tenant is None else f"tenant {connection.tenant!r}"
        raise Misuse(
            f"this Client acts for {mine}, not for {tenant!r:.60}: create one with Client(…, "
            f"tenant={tenant!r:.60}) and a key of that tenant or for all tenants"
        )


def said(**fields: Any) -> dict[str, Any]:
    """A body with the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
