"""``duly worker --metrics``: each figure is moved by its real cause, in a process of its own."""

import asyncio
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import httpx
import psutil
import pytest

from duly import Duly, Retry, Status, Timer, every, once, webhook
from duly.observers.metrics.families import FAMILIES, TIMERS
from tests.cli.conftest import APP, KEY, Process, Shell, Spawn, looking, wait_until
from tests.exposition import Exposition

CRASHES = (
    APP
    + """

@duly.on("crash")
async def crash(event: Event) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
"""
)

CRASHES_UNTIL_FAILED = 5

CLOSED = "http://127.0.0.1:1"
"""Where nobody listens."""


def ask(worker: Process, path: str = "/metrics", what: str = "metrics") -> httpx.Response:
    found = wait_until(lambda: re.search(rf"{what}.listening address=(\S+)", worker.output), told=lambda: worker.output)
    return httpx.get(found[1] + path, timeout=30, trust_env=False)


def scrape(worker: Process) -> Exposition:
    answer = ask(worker)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return Exposition(answer.text)


def becomes(worker: Process, holds: Callable[[Exposition], bool], patience: float = 30) -> Exposition:
    def found() -> Exposition | None:
        exposition = scrape(worker)
        return exposition if holds(exposition) else None

    exposition: Exposition = wait_until(found, patience=patience, told=lambda: ask(worker).text)
    return exposition


@pytest.mark.slow
def test_each_figure_of_a_worker_is_moved_by_its_cause(on: Shell, url: str, spawn: Spawn) -> None:
    on.write("shop.py", CRASHES)
    on.at("now", "--type", "crash")
    for _ in range(CRASHES_UNTIL_FAILED):
        assert spawn("tick", "--app", "shop", DULY_DATABASE_URL=url, DULY_LEASE="1s").wait() == -signal.SIGKILL
        wait_until(lambda: interrupted(url))
    asyncio.run(stored(url))
    on.set(DULY_SECRET_KEY=KEY)
    variables = {"DULY_DATABASE_URL": url, "DULY_WEBHOOK_ALLOW": "127.0.0.0/8", "DULY_SECRET_KEY": KEY}
    worker = spawn("worker", "--app", "shop", "--metrics", "0", **variables)
    wait_until(lambda: "target.parked" in worker.output, told=lambda: worker.output)
    on.at("now", "--type", "bill", "--webhook", CLOSED)
    wait_until(lambda: worked_off(url), told=lambda: worker.output)
    found = scrape(worker)

    greet = {"type": "greet", "lane": "handler:greet"}
    completed = found("duly_events_completed_total", **greet)
    assert completed >= 5
    assert found("duly_events_claimed_total", **greet) >= completed + 1  # and the one that had expired
    assert found("duly_events_created_total", **greet) >= 1  # successors
    assert found("duly_events_skipped_total", **greet) == 1
    assert found("duly_events_failed_total", type="reject", reason="rejected") == 1
    assert found("duly_events_failed_total", type="fail", reason="spent") == 1
    assert found("duly_events_failed_total", type="crash", reason="interrupted") == 1
    assert found("duly_events_failed_total") == 3
    assert found("duly_events_interrupted_total", type="crash") == 1
    assert found("duly_events_retried_total", type="fail") == 1
    assert found("duly_events_retried_total", type="bill", lane="webhook") >= 10
    assert found("duly_lateness_seconds_count", **greet) == completed
    assert found("duly_delivery_seconds_count", **greet) == completed
    assert found("duly_delivery_seconds_count", type="fail") == 2
    assert found("duly_lateness_seconds_sum", type="fail") >= 3600  # one of them was due an hour ago
    assert found("duly_claim_query_seconds_count") >= 1
    assert found("duly_claim_transaction_seconds_count") >= found("duly_claim_query_seconds_count")
    assert found("duly_claim_transaction_seconds_sum") > found("duly_claim_query_seconds_sum")

    assert found("duly_store_up") == 1
    assert found("duly_events_pending") >= 2  # of greet and fail
    assert found("duly_events_due", lane="handler:nobody") == 2
    assert found("duly_oldest_overdue_seconds", lane="handler:nobody") >= 60
    assert found("duly_oldest_overdue_seconds", lane="handler:greet") < 60
    assert found("duly_lane_served", lane="handler:nobody") == 0
    assert found("duly_lane_served", lane="handler:greet") == 1
    assert found("duly_events_held", reason="paused") == 1
    assert found("duly_events_held", reason="target") >= 1
    assert found("duly_dead_letters") == 3
    assert found("duly_workers", state="running") == 1
    assert found("duly_destinations_parked") == 1
    assert found("duly_schedules_halted", kind="ended") == 1
    assert found("duly_schedules_halted", kind="paused") == 1
    assert abs(found("duly_clock_skew_seconds")) < 1
    assert found("duly_poll_age_seconds") < 30

    passed = becomes(worker, lambda found: found.has("duly_pass_age_seconds"), patience=60)  # with the second beat
    assert passed("duly_pass_age_seconds") < 60
    assert passed("duly_pass_duration_seconds_count") >= 1
    assert passed("duly_pass_late_total") >= 1
    assert passed("duly_pass_recovery_total") >= 1
    assert passed("duly_pass_greatest_lateness_seconds") >= passed("duly_pass_average_lateness_seconds") > 0
    assert set(passed.families) == {*FAMILIES} - {*TIMERS}
    for name in passed.families:
        assert passed.labels(name) == set(FAMILIES[name].labels), name
    assert worker.stop() == 0


def interrupted(url: str) -> bool:
    """Whether the lease of the only event has ended."""

    async def look() -> bool:
        async with Duly(url, migrate=False) as duly:
            [event] = await duly.events.find()
            return event.ready is not None and event.ready < await duly.now()

    return asyncio.run(look())


async def stored(url: str) -> None:
    async with Duly(url, migrate=False, secret_key=KEY) as duly:
        now = await duly.now()
        hour = timedelta(hours=1)
        await duly.add_many([Timer(now, "greet") for _ in range(5)])
        await duly.at(now - 2 * hour, "greet", expires=hour)
        await duly.after(hour, "greet")
        await duly.after(0, "reject")
        await duly.after(0, "fail", retry=Retry(max_attempts=2, base=hour))
        await duly.at(now - hour, "fail", retry=Retry(max_attempts=1))
        await duly.add_many([Timer(now - hour, "nobody"), Timer(now, "nobody")])
        await duly.every("paused", every("1h"), "greet")
        await duly.schedules.pause("paused")
        await duly.every("often", every("1s"), "greet")
        await duly.every("last", once(await duly.now() + timedelta(seconds=3)), "greet")
        await duly.add_many([Timer(now, "bill", target=webhook(CLOSED)) for _ in range(15)])


def worked_off(url: str) -> bool:
    with looking(url) as read:
        events = read()
    became = Counter((event.type, event.status) for event in events)
    return (
        became["crash", Status.FAILED] == became["reject", Status.FAILED] == became["fail", Status.FAILED] == 1
        and became["greet", Status.COMPLETED] >= 8
        and became["greet", Status.SKIPPED] == 1
        and any(event.type == "fail" and event.status is Status.PENDING and event.attempts for event in events)
        and any(event.held_for is not None for event in events)
    )


def test_one_port_answers_probes_and_prometheus(lite: Shell, spawn: Spawn) -> None:
    worker = spawn("worker", "--app", "shop", "--metrics", "0", "--health", "0", DULY_DATABASE_URL="sqlite:///duly.db")
    becomes(worker, lambda found: found.has("duly_poll_age_seconds"))
    assert ask(worker, "/healthz").json() == {"status": "alive"}
    assert ask(worker, "/metrics", "health").status_code == 200
    assert worker.stop() == 0


def test_what_processes_have_counted_is_added_up_and_stays_when_one_dies(on: Shell, url: str, spawn: Spawn) -> None:
    many = 400
    worker = spawn("worker", "--app", "shop", "--processes", 2, "--metrics", "0", DULY_DATABASE_URL=url)
    becomes(worker, lambda found: found.has("duly_poll_age_seconds"))
    on_both = asyncio.run(stored_one_by_one(url, many))
    found = becomes(worker, lambda found: found("duly_events_completed_total", type="greet") == on_both)
    assert found("duly_lateness_seconds_count", type="greet") == many
    children = psutil.Process(worker.pid).children()
    assert len(children) == 2
    children[0].kill()
    wait_until(lambda: len(set(psutil.Process(worker.pid).children()) - {children[0]}) == 2)
    assert scrape(worker)("duly_events_completed_total", type="greet") == many
    on.at("now", "--type", "greet")
    becomes(worker, lambda found: found("duly_events_completed_total", type="greet") == many + 1)
    assert worker.stop() == 0


async def stored_one_by_one(url: str, many: int) -> int:
    async with Duly(url, migrate=False) as duly:
        for _ in range(many // 10):
            await duly.add_many([Timer(timedelta(), "greet") for _ in range(10)])
    return many


def test_the_loop_of_a_frozen_process_grows_old_in_the_answer_of_its_parent(lite: Shell, spawn: Spawn) -> None:
    url = "sqlite:///duly.db"
    worker = spawn("worker", "--app", "shop", "--processes", 2, "--metrics", "0", DULY_DATABASE_URL=url)
    becomes(worker, lambda found: found.has("duly_poll_age_seconds"))
    [one, _] = psutil.Process(worker.pid).children()
    one.suspend()
    began = time.monotonic()
    becomes(worker, lambda found: found("duly_poll_age_seconds") > 7)  # a sound loop passes every 5 s
    assert time.monotonic() - began < 30
    one.resume()
    becomes(worker, lambda found: found("duly_poll_age_seconds") < 6)
    assert worker.stop() == 0
