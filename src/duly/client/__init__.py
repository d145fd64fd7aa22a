"""``duly.client``: the verbs of Duly on a server, over its HTTP API.

    from duly.client import Client

    async with Client("https://duly.example", key="duly_…") as duly:
        await duly.at(due, "invoice.overdue", {"invoice": 7}, key="invoice-7")

Install it with ``pip install '.[client]'`` in a checkout.
"""

from duly.client.client import Client
from duly.errors import Forbidden, ServerError, ServerUnavailable, Unauthenticated
from duly.records.wire.answers import KnownType

__all__ = ["Client", "Forbidden", "KnownType", "ServerError", "ServerUnavailable", "Unauthenticated"]
