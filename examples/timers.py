"""Three timers in one script: python examples/timers.py

They are kept in timers.db. Kill the script before they have fired and run it again: they still fire.
"""

import asyncio
from datetime import timedelta

from duly import Duly, Event

duly = Duly("sqlite:///timers.db")
fired: set[str] = set()


@duly.on("egg.done")
async def eat(event: Event) -> None:
    print(f"the {event.payload} egg is done", flush=True)
    fired.add(event.payload)
    if fired >= {"soft", "medium", "hard"}:
        duly.stop()


async def main() -> None:
    async with duly:
        for seconds, kind in ((1, "soft"), (2, "medium"), (3, "hard")):
            await duly.after(timedelta(seconds=seconds), "egg.done", kind)
        await duly.run()


if __name__ == "__main__":
    asyncio.run(main())
