"""Measures whether a worker's memory stays flat over a million events."""

import statistics
import time

from benchmarks.crew import Crew
from benchmarks.gate import Order
from benchmarks.peers import Peer
from benchmarks.workloads import SECOND, TIMEOUT, Figures, wait_until_none

CHUNK = 5000
MOST_WAITING = 4 * CHUNK


def memory(peer: Peer, url: str, events: int) -> Figures:
    """Measures the resident memory of one worker while events are added, with at most 20,000 waiting at a time.

    The level in the second tenth of the run is compared with the level in the last: in the first tenth, caches and
    pools still grow.
    """
    samples: list[tuple[int, float]] = []
    with Crew(peer, "add", url) as adder, Crew(peer, "work", url) as worker:
        [process] = worker.processes
        worker.go()
        added = 0
        while added < events:
            adder.order(Order(CHUNK, time.time_ns() // 1000 - 60 * SECOND, 10), TIMEOUT)
            added += CHUNK
            worker.wait_until_handled(added - MOST_WAITING, TIMEOUT)
            samples.append((worker.handled, process.memory_info().rss / 2**20))
        worker.wait_until_handled(added, TIMEOUT)
        samples.append((worker.handled, process.memory_info().rss / 2**20))
        with peer.watch(url) as left:
            wait_until_none(left)
        worker.stop()
    tenth = max(1, len(samples) // 10)
    before = statistics.median(mb for _, mb in samples[tenth : 2 * tenth])
    after = statistics.median(mb for _, mb in samples[-tenth:])
    return {
        "before_mb": before,
        "after_mb": after,
        "most_mb": max(mb for _, mb in samples),
        "growth_percent": 100 * (after / before - 1),
        "curve": [value for handled, mb in samples[:: max(1, len(samples) // 50)] for value in (handled, mb)],
    }
