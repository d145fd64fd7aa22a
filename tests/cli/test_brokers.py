"""Brokers and task queues on the command line: what goes there, what is served here, and what nobody here serves."""

from importlib.util import find_spec
from typing import Any

import pytest

from tests.brokers import PASSWORD, NatsServer, RedisServer
from tests.cli.conftest import Shell, Spawn, wait_until


def findings(shell: Shell) -> dict[str, Any]:
    return {check["subject"]: check for check in shell("doctor", "--json").json["checks"]}


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["nats:orders.due"], {"nats": "orders.due"}),
        (["redis:user:7:due"], {"redis": "user:7:due"}),
        (["celery:shop.tasks.remind"], {"celery": "shop.tasks.remind"}),
        (["kafka:orders", "--format", "cloudevents"], {"kafka": {"topic": "orders", "format": "cloudevents"}}),
    ],
)
def test_events_and_schedules_can_go_to_a_broker(lite: Shell, words: list[str], target: Any) -> None:
    id = lite.at("+1h", "--type", "x", "--to", *words)
    assert lite.show(id)["target"] == target
    done = lite("schedules", "put", "s", "--every", "1h", "--type", "x", "--to", *words, "--json")
    assert done.json["target"] == target


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--to", "pigeon:post"],
            "--to 'pigeon:post' is not a destination: expected one such as nats:orders.due; known: nats",
        ),
        (["--to", "nats"], "--to 'nats' is not a destination"),
        (["--to", "nats:"], "target.nats.subject: expected a subject such as orders.due"),
        (["--to", "celery:t", "--format", "standard"], "target.celery.format: is not known; known: task, queue"),
        (["--to", "nats:a", "--webhook", "https://hooks.example"], "--webhook and --to are two destinations: give one"),
        (["--to", "nats:a", "--target", "crm"], "--to and --target are two destinations: give one"),
        (["--target", "crm", "--format", "standard"], "--format can only be used with --webhook or --to"),
    ],
)
def test_a_place_that_no_broker_can_have_is_refused(lite: Shell, words: list[str], said: str) -> None:
    done = lite("at", "now", "--type", "x", *words)
    assert done.code != 0
    assert said in done.err


def test_doctor_says_which_brokers_can_be_reached(lite: Shell) -> None:
    with NatsServer(login=True) as nats, RedisServer(login=True) as redis:
        lite.set(DULY_NATS_URL=nats.url, DULY_REDIS_URL=redis.url, DULY_CELERY_URL=redis.url)
        found = findings(lite)
        assert (found["NATS"]["level"], found["NATS"]["found"]) == ("ok", f"nats://127.0.0.1:{nats.port}")
        assert (found["Redis"]["level"], found["Redis"]["found"]) == ("ok", f"redis://127.0.0.1:{redis.port}/0")
        assert found["Celery"]["level"] == "ok"
        assert "Kafka" not in found, "nobody asks for it"
        lite.set(DULY_REDIS_URL=redis.url.replace(PASSWORD, "wr0ng"))
        nats.kill()
        done = lite("doctor")
        assert done.code == 1
        assert PASSWORD not in done.out
        assert "wr0ng" not in done.out
        found = findings(lite)
        assert found["NATS"]["level"] == found["Redis"]["level"] == "fail"
        assert "Connect call failed" in found["NATS"]["found"]
        assert "refuses the credentials in its URL" in found["Redis"]["found"]
        assert "until then, events for it wait" in found["NATS"]["advice"]


def test_doctor_tells_of_events_that_nothing_here_can_send(on: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    on.at("now", "--type", "x", "--to", "kafka:orders")
    on.at("+1h", "--type", "x", "--to", "kafka:orders")
    found = findings(on)["Kafka"]
    assert (found["level"], found["found"]) == ("warn", "2 events to send, but DULY_KAFKA_URL is not set here")
    assert found["advice"] == "set DULY_KAFKA_URL where workers run"
    monkeypatch.setattr("duly.channels.brokers.registry.find_spec", lambda _: None)
    on.set(DULY_KAFKA_URL="kafka://localhost:9092", DULY_NATS_URL="nats://localhost:4222")
    found = findings(on)
    assert found["Kafka"]["found"] == "2 events to send, but aiokafka is not installed here"
    assert found["Kafka"]["advice"] == "pip install '.[kafka]' in a checkout of Duly where workers run"
    assert (found["NATS"]["level"], found["NATS"]["found"]) == ("warn", "nats is not installed here")
    assert on("doctor", "--app", "shop").out.count("this app has no handler for it") == 0


def test_celery_on_redis_without_its_library_is_told_what_to_install(
    on: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = on.at("now", "--type", "x", "--to", "celery:tasks.x")
    monkeypatch.setattr(
        "duly.channels.brokers.registry.find_spec", lambda name: None if name == "redis" else find_spec(name)
    )
    for scheme in ("redis", "rediss", "sentinel"):
        on.set(DULY_CELERY_URL=f"{scheme}://localhost:1")
        found = findings(on)["Celery"]
        assert found["found"] == "1 event to send, but redis, which Celery needs for its URL, is not installed here"
        assert found["advice"] == "pip install '.[celery,redis]' in a checkout of Duly where workers run"
    told = on("tick")
    assert "AttributeError" not in told.out + told.err
    assert on.show(id)["status"] == "PENDING"
    assert "AttributeError" not in on("events", "why", id).out
    on.set(DULY_CELERY_URL="amqp://localhost:1")
    assert "redis" not in findings(on)["Celery"]["found"], "other brokers need no library of Redis"


def test_a_process_that_can_send_nothing_is_told_the_setting_of_each_broker(
    lite: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    lite.at("now", "--type", "x", "--to", "celery:tasks.x")
    monkeypatch.setattr("duly.wiring.find_spec", lambda _: None)
    for verb in ("tick", "worker"):
        told = lite(verb)
        assert told.code != 0
        assert "there is nothing to run: no app is given" in told.err
        assert "for celery, set DULY_CELERY_URL" in told.err
        assert "for command, start one with `duly worker --commands`" in told.err


def test_serve_and_doctor_say_what_is_open_over_http(lite: Shell, spawn: Spawn) -> None:
    assert "over HTTP" not in findings(lite), "nobody asks for brokers"
    lite.set(DULY_KAFKA_URL="kafka://localhost:1")
    closed = "requests may not name brokers; DULY_BROKER_ALLOW opens broker addresses to tenants"
    assert findings(lite)["over HTTP"]["found"] == closed
    allow = "kafka:{tenant}-*, nats:orders.{tenant}.>"
    lite.set(DULY_BROKER_ALLOW=allow)
    found = findings(lite)["over HTTP"]
    assert (found["level"], found["found"]) == ("ok", f"opened to tenants by DULY_BROKER_ALLOW: {allow}")
    url = f"sqlite:///{lite.folder}/duly.db"
    server = spawn("serve", "--port", "0", "--no-worker", DULY_DATABASE_URL=url, DULY_BROKER_ALLOW=allow)
    wait_until(lambda: "Over HTTP: " in server.output, told=lambda: server.output)
    assert server.stop() == 0
    assert f"Over HTTP: opened to tenants by DULY_BROKER_ALLOW: {allow}\n" in server.output


def test_a_bad_pattern_keeps_a_server_from_starting(lite: Shell) -> None:
    lite.set(DULY_BROKER_ALLOW="redis:{tenant}*")
    done = lite("serve", "--port", "0")
    assert done.code != 0
    assert "has {tenant}*, which would allow tenant acme the addresses of tenant acme2" in done.err


def test_a_worker_says_what_it_serves_and_what_waits_for_others(on: Shell, url: str, spawn: Spawn) -> None:
    with RedisServer(login=True) as server:
        sent = on.at("now", "--type", "x", "--to", "redis:orders")
        waits = on.at("+1h", "--type", "x", "--to", "rabbitmq:orders")
        worker = spawn("worker", DULY_DATABASE_URL=url, DULY_REDIS_URL=server.url)
        wait_until(lambda: on.show(sent)["status"] == "COMPLETED", told=lambda: worker.output)
        assert worker.stop() == 0
        assert "This serves webhooks, HTTP requests and Redis." in worker.output
        assert 'channel.not_served channel=rabbitmq advice="set DULY_RABBITMQ_URL"' in worker.output
        assert worker.output.count("channel.not_served") == 1
        assert PASSWORD not in worker.output
        assert on.show(waits)["status"] == "PENDING"


def test_a_broker_that_is_not_there_when_the_worker_starts_is_told_of_once(on: Shell, url: str, spawn: Spawn) -> None:
    server = RedisServer(login=True)
    try:
        sent = on.at("now", "--type", "x", "--to", "redis:orders")
        worker = spawn("worker", DULY_DATABASE_URL=url, DULY_REDIS_URL=server.url)
        wait_until(lambda: "channel.down channel=redis" in worker.output, told=lambda: worker.output)
        server.start()
        wait_until(lambda: on.show(sent)["status"] == "COMPLETED", told=lambda: worker.output)
        assert worker.stop() == 0
        assert [worker.output.count(line) for line in ("channel.down", "channel.up")] == [1, 1]
        assert on.show(sent)["attempts"] == 1
    finally:
        server.close()


def test_a_bad_url_of_a_broker_is_refused_before_anything_starts(lite: Shell) -> None:
    lite.set(DULY_RABBITMQ_URL=f"http://ada:{PASSWORD}@localhost")
    done = lite("worker")
    assert done.code != 0
    assert "DULY_RABBITMQ_URL='http://***@localhost' cannot be used: expected amqp://" in done.err
    assert PASSWORD not in done.err
