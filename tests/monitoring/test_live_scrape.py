"""A real Prometheus scrapes real processes: all that rules and dashboard ask for is there."""

import asyncio
import re

import httpx
import pytest

from tests.brokers import NatsServer
from tests.cli.conftest import Process, Shell, Spawn, wait_until
from tests.monitoring.prometheus import PrometheusServer
from tests.monitoring.queries import Query, of_alerts, of_dashboard
from tests.timers.desk import Desk, command

PATIENCE_S = 90
"""Seconds until all is there: passes come with the second beat of a worker, and the database is asked every 15 s."""


OF_TIMERS = {
    "timer_commands_received_total": 2,
    "timer_commands_rejected_total": 1,
    "timer_schedules_processed_total": 1,
}
"""What a timer service tells that was sent one good command and one bad one."""


def place(process: Process, said: str) -> str:
    found = wait_until(lambda: re.search(rf"{said}http://(\S+?)(;|\s)", process.output), told=lambda: process.output)
    return str(found[1])


@pytest.mark.slow
@pytest.mark.usefixtures("debian")
def test_every_metric_and_label_of_the_rules_and_the_dashboard_is_scraped(lite: Shell, spawn: Spawn) -> None:
    url = f"sqlite:///{lite.folder}/duly.db"
    lite.at("now", "--type", "greet")
    with NatsServer() as broker:
        asyncio.run(sent(broker))
        worker = spawn("worker", "--app", "shop", "--metrics", "0", DULY_DATABASE_URL=url)
        serve = spawn("serve", "--port", "0", "--no-worker", DULY_DATABASE_URL=url)
        timers = spawn("timer-service", "--db", "sqlite:///t.db", "--metrics", "0", TIMER_BROKER_URL=broker.url)
        places = {
            "duly": place(worker, "metrics.listening address="),
            "duly-serve": place(serve, "Duly serves "),
            "duly-timers": place(timers, "metrics.listening address="),
        }
        httpx.get(f"http://{places['duly-serve']}/v1/events", trust_env=False)
        with PrometheusServer(places) as prometheus:
            asked = [*of_alerts(), *of_dashboard()]
            wait_until(
                lambda: not missing(prometheus, asked),
                patience=PATIENCE_S,
                told=lambda: str(missing(prometheus, asked)),
            )
            for name, value in OF_TIMERS.items():
                assert value_of(prometheus, name) == value, name
            assert value_of(prometheus, "timer_polling_duration_seconds_count") > 0
            targets = prometheus.ask("targets")["activeTargets"]
            assert {target["health"] for target in targets} == {"up"}
            [*groups] = prometheus.ask("rules")["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            assert {(rule["health"], rule.get("lastError", "")) for rule in rules} == {("ok", "")}
            firing = {rule["name"] for rule in rules if rule["state"] == "firing"}
            assert firing <= {"DulyPermanentErrorsOfCommands"}, "all is well but a command that was refused"
        for process in (worker, serve, timers):
            assert process.stop() == 0, process.output


async def sent(broker: NatsServer) -> None:
    async with Desk(broker.url) as desk:
        await desk.send(command("s1"), b"bad")


def value_of(prometheus: PrometheusServer, name: str) -> float:
    [series] = prometheus.ask("query", query=name)["result"]
    return float(series["value"][1])


def missing(prometheus: PrometheusServer, asked: list[Query]) -> list[str]:
    """The selectors that find no series, or none with all the labels by which the query tells series apart."""
    lacking = []
    for query in asked:
        for name, conditions in query.selectors:
            series = prometheus.ask("series", **{"match[]": name + conditions})
            if not any(query.labels <= set(one) for one in series):
                lacking.append(f"{name}{conditions} by {sorted(query.labels)}")
    return lacking
