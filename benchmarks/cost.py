"""What a piece of work costs this process: time on the wall, time on the CPU, memory."""

import os
import time
from typing import Self

import psutil


class Cost:
    """Measures what happens inside ``with Cost() as cost:``."""

    wall = cpu = grown_mb = peak_mb = 0.0

    def __enter__(self) -> Self:
        self._memory = _megabytes()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        self.peak_mb = _megabytes()
        self.grown_mb = self.peak_mb - self._memory

    def per(self, events: int) -> dict[str, float]:
        return {
            "events_per_second": events / self.wall,
            "client_us_per_event": 1e6 * self.cpu / events,
            "grown_mb": self.grown_mb,
            "rss_mb": self.peak_mb,
        }


def _megabytes() -> float:
    return float(psutil.Process(os.getpid()).memory_info().rss) / 2**20
