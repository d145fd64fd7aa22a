"""The receiving side of Duly's webhooks: verifies that a delivery is from Duly, and recognizes repeated deliveries.

    inbox = Inbox(secret)

    message = inbox.verify(request.headers, request.body)  # raises Refused, which has the status to answer
    with transaction.atomic():
        if record(connection, message.id):  # False: a repeated delivery
            ...                             # the effect, in the same transaction

Needs nothing but the standard library, and the driver of the receiver's own database.
"""

from duly.inbox.ids import ddl, forget, record
from duly.inbox.message import Message
from duly.inbox.receiving import Inbox
from duly.inbox.refusals import BadSignature, Malformed, Refused, Stale, TooLarge

__all__ = [
    "BadSignature",
    "Inbox",
    "Malformed",
    "Message",
    "Refused",
    "Stale",
    "TooLarge",
    "ddl",
    "forget",
    "record",
]
