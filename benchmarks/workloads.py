"""The workloads, measured in the same way for all peers: from the outside, in processes of their own, from ``go`` until
the database holds the last result. No figure is returned before all events are confirmed as handled."""

import statistics
import time
from collections.abc import Sequence

import psycopg

from benchmarks.crew import Broken, Crew
from benchmarks.gate import Order
from benchmarks.peers import Left, Peer
from benchmarks.usage import Usage, backends, precise_cpu

MILLISECOND = 1000  # in µs, as all instants here
SECOND = 10**6
DAY = 86_400 * SECOND

LATER = 1000  # future events of an idle worker, due tomorrow
TIMEOUT = 240.0  # seconds for one step of a workload, such as handling all events
QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)

Figures = dict[str, float | list[float]]


def insert(peer: Peer, url: str, events: int) -> Figures:
    """Measures the bulk insert of events that are due in a day."""
    with Crew(peer, "add", url) as adder, peer.watch(url) as left:
        before = left()
        with Usage(adder.processes, url) as usage:
            adder.order(Order(events, _now() + DAY, MILLISECOND), TIMEOUT)
        if left() - before != events:
            raise Broken(f"{left() - before:,} of {events:,} were added")
    return {"events_per_second": events / usage.wall, **usage.per(events)}


def drain(peer: Peer, url: str, events: int, processes: int = 1) -> Figures:
    """Measures overdue events with a handler that does nothing, from ``go`` until the last event is settled."""
    _fill(peer, url, Order(events, _now() - 60 * SECOND, 10))
    with Crew(peer, "work", url, size=processes) as workers, peer.watch(url) as left:
        with Usage(workers.processes, url) as usage:
            start = time.perf_counter()
            workers.go()
            workers.wait_until_handled(events, TIMEOUT)
            end = wait_until_none(left)
        shares = [member.handled for member in workers.members]
        workers.stop()
        _check(peer, url, events, sum(shares))
    return {
        "events_per_second": events / (end - start),
        **usage.per(events),
        "least_share_percent": 100 * min(shares) * processes / events,
    }


def lateness(peer: Peer, url: str, rate: int, seconds: int) -> Figures:
    """Measures how late each handler starts, for one-shot events at a steady rate, added beforehand."""
    events = rate * seconds
    with Crew(peer, "add", url) as adder, Crew(peer, "work", url, on_time=True) as worker:
        arranging = 2 + events / peer.arranges_per_second
        first = _now() + int((1 + events / peer.adds_per_second + arranging) * SECOND)
        first -= first % MILLISECOND  # some peers store milliseconds only
        adder.order(Order(events, first, SECOND // rate), TIMEOUT)
        if _now() > first - arranging * SECOND:
            raise Broken(f"took too long to add {events:,} events")
        worker.go()
        time.sleep((first - _now()) / SECOND)
        with Usage(worker.processes, url) as usage:
            worker.wait_until_handled(events, seconds + 60)
        late = sorted(1000 * one for one in worker.stop())
    if len(late) != events:
        raise Broken(f"handled {len(late):,} times, but there were {events:,} events")
    if late[0] < 0 and peer.package == "duly":
        raise Broken(f"fired {-1000 * late[0]:.0f} µs early, which Duly never may")
    return {
        "p50_ms": quantile(late, 0.5),
        "p99_ms": quantile(late, 0.99),
        "max_ms": late[-1],
        "early": sum(one < 0 for one in late),
        "client_cpu_percent": 100 * usage.workers / usage.wall,
        "server_cpu_percent": 100 * usage.server / usage.wall,
        "quantiles_ms": [quantile(late, q) for q in QUANTILES],
    }


def idle(peer: Peer, url: str, seconds: int, processes: int = 1) -> Figures:
    """Measures the CPU use of idle workers and their database backends, configured for low lateness and with nothing
    due for a day."""
    _fill(peer, url, Order(LATER, _now() + DAY, MILLISECOND))
    with Crew(peer, "work", url, size=processes, on_time=True) as workers:
        workers.go()
        time.sleep(1.5 + LATER / peer.arranges_per_second)  # the start is not measured as idle time
        serving = backends(url) if url.startswith("postgresql") else []
        before = [sum(map(precise_cpu, group)) for group in (workers.processes, serving)]
        start = time.perf_counter()
        time.sleep(seconds)
        wall = time.perf_counter() - start
        after = [sum(map(precise_cpu, group)) for group in (workers.processes, serving)]
        if workers.handled:
            raise Broken(f"handled {workers.handled} events that were not due")
    worker, server = (100 * (b - a) / wall / processes for a, b in zip(before, after, strict=True))
    return {"worker_cpu_percent": worker, "server_cpu_percent": server, "cpu_percent": worker + server}


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, the minimum and the maximum of values."""
    return statistics.median(values), min(values), max(values)


def tidy(url: str) -> None:
    """Vacuums and checkpoints, so that no case pays for rows added before, or for an autovacuum that others avoid."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")


def _fill(peer: Peer, url: str, order: Order) -> None:
    with Crew(peer, "add", url) as adder:
        adder.order(order, TIMEOUT)
    tidy(url)


def wait_until_none(left: Left) -> float:
    """Waits until no event is left. Returns the start time of the query that found none."""
    deadline = time.perf_counter() + TIMEOUT
    while (asked := time.perf_counter()) < deadline:
        if left() == 0:
            return asked
        time.sleep(0.001)
    raise Broken(f"{left():,} were handled, but never settled")


def _check(peer: Peer, url: str, events: int, handled: int) -> None:
    ended = peer.ended(url)
    if handled != events or ended not in (None, events):
        raise Broken(f"of {events:,} events, {handled:,} were handled and {ended} are kept as finished")


def _now() -> int:
    return time.time_ns() // 1000
