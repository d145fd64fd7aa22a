"""Receives Duly's webhooks and keeps each greeting once, however often it is delivered:

    WEBHOOK_SECRET=whsec_… python examples/receiver.py

The greetings are in receiver.db. Kill it whenever you like: what it has not answered, Duly sends again.
"""

import json
import os
import sqlite3
import sys
from contextlib import closing

import uvicorn

from duly.inbox import Inbox, Message, ddl, record

secret = os.environ.get("WEBHOOK_SECRET") or sys.exit("set WEBHOOK_SECRET to what `duly targets put` has shown")
inbox = Inbox(secret)


@inbox.asgi
def receive(message: Message) -> None:
    with closing(sqlite3.connect("receiver.db")) as connection, connection:  # commits at its end, or rolls back
        if record(connection, message.id):
            connection.execute("INSERT INTO greetings VALUES (?, ?)", (message.id, json.dumps(message.data)))


def main() -> None:
    with closing(sqlite3.connect("receiver.db")) as connection, connection:
        connection.execute(ddl("sqlite"))
        connection.execute("CREATE TABLE IF NOT EXISTS greetings (event text, payload text)")
    uvicorn.run(receive, port=int(os.environ.get("PORT", "9000")))


if __name__ == "__main__":
    main()
