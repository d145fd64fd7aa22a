"""An order and its reminder are stored together, or not at all: python examples/together.py"""

import asyncio
from datetime import timedelta

from duly import Duly, Event

duly = Duly("sqlite://")  # in memory; name a file, or PostgreSQL, to keep it


@duly.on("order.unpaid")
async def remind(event: Event) -> None:
    print(f"order {event.payload['order']} is still unpaid", flush=True)


async def place(order: int, *, paid_by: str) -> None:
    async with duly.transaction() as tx:
        await tx.execute("INSERT INTO orders VALUES ($1, $2)", order, paid_by)
        await duly.after(timedelta(seconds=1), "order.unpaid", {"order": order}, transaction=tx)
        if paid_by == "magic":
            raise ValueError(f"order {order} cannot be paid by magic")


async def main() -> None:
    async with duly:
        async with duly.transaction() as tx:
            await tx.execute("CREATE TABLE orders (id integer PRIMARY KEY, paid_by text)")
        await place(1, paid_by="card")
        try:
            await place(2, paid_by="magic")
        except ValueError as error:
            print(f"{error}: neither it nor its reminder was stored", flush=True)
        await asyncio.sleep(1.1)
        await duly.tick()


if __name__ == "__main__":
    asyncio.run(main())
