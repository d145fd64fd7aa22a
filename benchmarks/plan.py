"""The cases that ``make bench`` runs: each workload with its peers and its number of events."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.peers import OTHERS, Absent, Peer, find
from benchmarks.rules import EXPRESSIONS
from benchmarks.worst import ATTACKS

WORKLOADS = (
    "insert",
    "drain",
    "lateness",
    "idle",
    "growth",
    "claimers",
    "memory",
    "prune",
    "rules",
    "schedules",
    "users",
    "webhooks",
    "tenants",
    "timers",
    "reads",
    "http",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of all workloads."""

    events: int = 50_000
    most: float = 1.0  # share of the maximum that a slow peer is given
    rate: int = 200
    seconds: int = 20
    peers_seconds: int = 10  # half of Duly's, because the lateness of peers is seconds, not milliseconds
    idle: int = 8
    future: tuple[int, int] = (1_000_000, 5_000_000)
    finished: int = 1_000_000
    foreign: int = 100_000
    rounds: int = 300
    claims: int = 100_000
    memory: int = 1_000_000
    pruned: int = 1_000_000  # finished events beside which others are due
    rounds_of_finished: int = 5  # how often as many come and go
    walks: int = 200
    schedules: int = 1000
    hours: int = 5  # rounds; in each hour all schedules are due
    down: int = 10_000  # schedules that are overdue after a day of downtime
    users: int = 1_000_000
    birthdays: int = 40_000  # on the busiest morning
    minute: int = 60  # seconds over which the birthdays are spread
    webhooks: int = 20_000
    commands: int = 10_000  # ScheduleTimer commands over a broker
    flood: int = 200_000  # due events of one tenant
    quiet: int = 10  # events a second of another tenant
    looked_through: int = 1_000_000  # events in the database for the read workloads
    looks: int = 200  # repetitions of each query
    requests: int = 5000  # over HTTP, one timer each
    answered: int = 100_000  # HTTP requests over which memory must stay flat
    repeat: int = 3
    thorough: bool = True  # else without the idle use of peers, and without slow peers with two processes


QUICK = Sizes(
    events=5000,
    most=0.1,
    seconds=1,
    peers_seconds=1,
    idle=1,
    future=(20_000, 100_000),
    finished=20_000,
    foreign=10_000,
    rounds=50,
    claims=10_000,
    memory=50_000,
    pruned=50_000,
    walks=20,
    hours=2,
    down=2000,
    users=20_000,
    birthdays=2000,
    minute=10,
    webhooks=2000,
    commands=2000,
    flood=50_000,
    looked_through=50_000,
    looks=30,
    requests=500,
    answered=2000,
    repeat=1,
    thorough=False,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One workload of one peer. A case with a backdrop runs in a database that was prepared with it. Cases that share a
    database see the rows of the cases before."""

    workload: str
    peer: str
    numbers: tuple[int, ...]
    label: str = ""
    backdrop: str | None = None
    shares: str | None = None
    once: bool = False  # takes too long to be repeated, and its results vary little


@dataclass(frozen=True, slots=True)
class Backdrop:
    """The rows in a database that a claim must skip."""

    title: str
    future: int = 0
    foreign: int = 0
    finished: int = 0


def backdrops(sizes: Sizes) -> dict[str, Backdrop]:
    some, many = sizes.future
    return {
        "none": Backdrop("nothing else"),
        "some": Backdrop(f"{some:,} future events", future=some),
        "many": Backdrop(f"{many:,} future events", future=many),
        "held": Backdrop(f"{sizes.finished:,} finished behind an open transaction", finished=sizes.finished),
        "foreign": Backdrop(f"{sizes.foreign:,} due in another lane", foreign=sizes.foreign),
    }


def cases(sizes: Sizes, only: list[str] | None, peers: list[str] | None) -> list[Case]:
    others = [name for name in OTHERS if name in (peers or OTHERS)]
    wanted = only or WORKLOADS
    return [case for workload in wanted for case in _PLANS[workload](sizes, others)]


def cap(name: str, workload: str, sizes: Sizes) -> int:
    """The number of events that a peer is given, fewer for a slow peer."""
    try:
        peer = find(name)
    except Absent:
        return sizes.events
    most = peer.drains_at_most if workload == "drain" else peer.inserts_at_most
    return min(sizes.events, int(most * sizes.most))


def _insert(sizes: Sizes, others: list[str]) -> Iterator[Case]:
    for name in ("duly", *others, "duly_in_asyncpg", "duly_in_psycopg", "duly_sqlite"):
        yield Case("insert", name, (cap(name, "insert", sizes),))


def _drain(sizes: Sizes, others: list[str]) -> Iterator[Case]:
    for name in ("duly", *others, "duly_task", "duly_sqlite"):
        yield Case("drain", name, (cap(name, "drain", sizes), 1), "1 process")
    for name in ("duly", *others, "duly_task"):
        events = cap(name, "drain", sizes)
        if sizes.thorough or events == sizes.events:
            yield Case("drain", name, (events, 2), "2 processes")


def _lateness(sizes: Sizes, others: list[str]) -> Iterator[Case]:
    for name in ("duly", "duly_schedules", "duly_lookahead", "duly_sqlite"):
        yield Case("lateness", name, (sizes.rate, sizes.seconds))
    for name in others:
        yield Case("lateness", name, (sizes.rate, sizes.peers_seconds))


def _idle(sizes: Sizes, others: list[str]) -> Iterator[Case]:
    for name in ("duly", "duly_lookahead", "duly_sqlite", *(others if sizes.thorough else ())):
        yield Case("idle", name, (sizes.idle, 1), "1 worker")
    for name in ("duly", "duly_lookahead"):
        yield Case("idle", name, (sizes.idle, 10), "10 workers")


def _growth(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for name, backdrop in backdrops(sizes).items():
        yield Case("claim", "duly", (sizes.rounds,), backdrop.title, name)


def _claimers(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for batch in (10, 100):
        yield Case("claimers", "duly", (sizes.claims, batch), f"batches of {batch}")


def _memory(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for name, how in (
        ("duly", ""),
        ("duly_sqlite", ", SQLite"),
        ("duly_observed", ", with metrics"),
        ("duly_observed_sqlite", ", SQLite, with metrics"),
    ):
        yield Case("memory", name, (sizes.memory,), f"{sizes.memory:,} events{how}", once=True)


def _prune(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    many, times = sizes.pruned, sizes.rounds_of_finished
    seconds = 3 * sizes.seconds
    yield Case("beside_pruning", "duly", (0, sizes.rate, seconds), "nothing to prune")
    yield Case("beside_pruning", "duly", (many, sizes.rate, seconds), f"{many:,} finished events")
    yield Case("come_and_gone", "duly", (many, times), f"{times} times {many:,} events", once=True)


def _rules(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for which, expression in enumerate(EXPRESSIONS):
        yield Case("rules", "duly", (which, sizes.walks), f"`{expression}`")
    yield Case("changes", "duly", (), once=True)


def _schedules(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for batch in (10, 100):
        yield Case("due", "duly", (sizes.schedules, batch, sizes.hours), f"batches of {batch}")
        yield Case("due_bare", "duly", (sizes.schedules, batch, sizes.hours), f"batches of {batch}")
    yield Case("catch_up", "duly", (sizes.schedules, 1), "due once")
    yield Case("catch_up", "duly", (sizes.down, 1), "many due once")
    yield Case("catch_up", "duly", (sizes.down, 24), "hourly, a day missed")


def _users(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    users, due, minute = sizes.users, sizes.birthdays, sizes.minute
    yield Case("import_users", "duly", (users,), f"{users:,} users", shares="users", once=True)
    over = "a minute" if minute == 60 else f"{minute} seconds"
    yield Case("morning", "duly", (due, minute, users), f"{due:,} over {over}", shares="users")
    yield Case("morning", "duly", (due, 0, users), f"{due:,} at one instant", shares="users")


def _webhooks(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for name, store in (("duly", "PostgreSQL"), ("duly_sqlite", "SQLite")):
        yield Case("webhooks", name, (sizes.webhooks,), store)


def _timers(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for name, store in (("duly", "PostgreSQL"), ("duly_sqlite", "SQLite")):
        yield Case("timers", name, (sizes.commands,), store)


def _tenants(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for name, store in (("duly", ""), ("duly_sqlite", ", SQLite")):
        for flood, beside in ((0, "alone"), (sizes.flood, f"beside {sizes.flood:,} due events of another tenant")):
            yield Case("quiet", name, (flood, sizes.quiet, 10), f"{beside}{store}")
    for place, attack in enumerate(ATTACKS):
        label = "all of it at once" if "," in attack else attack
        yield Case("worst", "duly", (place, sizes.seconds), label)


def _http(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for name, store in (("duly", "PostgreSQL"), ("duly_sqlite", "SQLite")):
        yield Case("http_creates", name, (sizes.requests, 10 * sizes.requests), store)
        yield Case("http_reads", name, (sizes.looked_through, sizes.looks), store)
        yield Case("http_memory", name, (sizes.answered,), f"{sizes.answered:,} requests, {store}", once=True)


def _reads(sizes: Sizes, _others: list[str]) -> Iterator[Case]:
    for name, store in (("duly", "PostgreSQL"), ("duly_sqlite", "SQLite")):
        yield Case("reads", name, (sizes.looked_through, sizes.looks), store)


_PLANS = {
    "insert": _insert,
    "drain": _drain,
    "lateness": _lateness,
    "idle": _idle,
    "growth": _growth,
    "claimers": _claimers,
    "memory": _memory,
    "prune": _prune,
    "rules": _rules,
    "schedules": _schedules,
    "users": _users,
    "webhooks": _webhooks,
    "tenants": _tenants,
    "timers": _timers,
    "reads": _reads,
    "http": _http,
}


def refusal(case: Case) -> str | None:
    """The reason why a case cannot be run, or None."""
    try:
        peer: Peer = find(case.peer)
    except Absent as absent:
        return str(absent)
    if case.workload == "drain" and case.numbers[1] > 1 and not peer.several:
        return "its processes cannot share the work"
    return None
