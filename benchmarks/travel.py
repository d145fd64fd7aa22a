"""Measures how fast tests move time: nightly schedules for a year, on SQLite in memory.

    python -m benchmarks.travel

The figures are runs in a second of this process's CPU time, so that other work on the machine matters less.
"""

import asyncio
import statistics
import time

from duly import Duly, Event, cron
from duly.testing import rebound, travel

ROUNDS = 5
SCHEDULES = (1, 10)
DAYS = 365


async def runs_per_second(schedules: int) -> float:
    duly = Duly("sqlite://")

    @duly.on("nightly")
    async def nightly(event: Event) -> None: ...

    with rebound(duly):
        async with travel(duly) as moved:
            for number in range(schedules):
                await duly.every(f"nightly-{number}", cron("30 2 * * *", timezone="Europe/Brussels"), "nightly")
            began = time.process_time()
            runs = await moved.by(days=DAYS)
            return len(runs) / (time.process_time() - began)


def main() -> None:
    for schedules in SCHEDULES:
        rates = sorted(asyncio.run(runs_per_second(schedules)) for _ in range(ROUNDS))
        spread = f"{rates[0]:,.0f} to {rates[-1]:,.0f}"
        print(f"{schedules:3} a night: {statistics.median(rates):,.0f} runs a second ({spread})")


if __name__ == "__main__":
    main()
