"""The caller's own transaction, for verbs that write. A transaction is a store whose calls commit together."""

from typing import Any

from duly.errors import Misuse


def no_transaction(given: Any) -> None:
    """Refuses a caller's transaction: the store is one already, such as that of a request."""
    if given is not None:
        raise Misuse("these calls have their own transaction: remove transaction=")
