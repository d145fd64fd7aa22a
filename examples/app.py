"""The handlers of a small shop, as a worker finds them. In the folder above this one:

    duly worker --app examples.app:duly
    duly at +5s --app examples.app:duly --type invoice.overdue --payload '{"invoice": 7}'

The database is duly.db here, or whatever --db or DULY_DATABASE_URL says.
"""

from duly import Duly, Event, Rejected, Transaction, every

duly = Duly()


@duly.on("invoice.overdue")
async def remind(event: Event) -> None:
    print(f"invoice {event.payload['invoice']} is overdue", flush=True)


@duly.on("cart.abandoned")  # a plain def runs in a thread, so it may block
def nudge(event: Event) -> Rejected | None:
    if "email" not in event.payload:
        return Rejected("the cart has no email address")  # a dead letter: trying again would not help
    print(f"did {event.payload['email']} forget something?", flush=True)
    return None


@duly.on("ledger.close", transactional=True)  # the row and the event's completion commit together: exactly once
async def close(event: Event, tx: Transaction) -> None:
    await tx.execute("CREATE TABLE IF NOT EXISTS closings (event text PRIMARY KEY, month text)")
    await tx.execute("INSERT INTO closings VALUES ($1, $2)", event.id, event.payload["month"])
    print(f"closed {event.payload['month']}", flush=True)


@duly.schedule(every("1h"))
async def hourly_report(event: Event) -> None:
    print(f"the report of {event.due:%H:%M}", flush=True)
