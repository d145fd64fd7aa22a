"""``duly timer-service``: its settings, its exit codes, and that it drains."""

import asyncio
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from duly import Status
from duly.errors import BadSetting
from duly.timer_service.service import TimerSettings, read_timer_settings
from tests.brokers import NatsServer
from tests.cli.conftest import Process, Shell, Spawn, looking, wait_until
from tests.timers.desk import Desk, command, in_seconds

BAD = [
    ("TIMER_POLLING_INTERVAL", "5s", "a whole number of milliseconds from 10 to 3,600,000"),
    ("TIMER_POLLING_INTERVAL", "9", "a whole number of milliseconds from 10 to 3,600,000"),
    ("TIMER_POLLING_INTERVAL", "3600001", "a whole number of milliseconds from 10 to 3,600,000"),
    ("TIMER_POLLING_INTERVAL", "-5000", "a whole number of milliseconds from 10 to 3,600,000"),
    ("TIMER_POLLING_INTERVAL", "1e3", "a whole number of milliseconds from 10 to 3,600,000"),
    ("TIMER_POLLING_INTERVAL", "\u0665\u0660\u0660", "a whole number of milliseconds from 10 to 3,600,000"),
    ("TIMER_POLLING_INTERVAL", "9" * 5000, "a whole number of milliseconds from 10 to 3,600,000"),
    ("TIMER_BATCH_SIZE", "0", "a whole number of timers from 1 to 1,000"),
    ("TIMER_BATCH_SIZE", "1001", "a whole number of timers from 1 to 1,000"),
    ("TIMER_BATCH_SIZE", "many", "a whole number of timers from 1 to 1,000"),
    (
        "TIMER_DB_PATH",
        "postgresql://localhost/timers",
        "the path of a SQLite file; DULY_DATABASE_URL and --db take a URL",
    ),
    ("TIMER_BROKER_URL", "localhost:4222", "nats://host:4222, or several separated by commas"),
    ("TIMER_BROKER_URL", "nats://", "nats://host:4222, or several separated by commas"),
    ("TIMER_BROKER_URL", "nats://host:port", "nats://host:4222, or several separated by commas"),
    ("TIMER_BROKER_URL", "nats://host:70000", "nats://host:4222, or several separated by commas"),
    ("TIMER_BROKER_URL", "nats://one:4222,two:4222", "nats://host:4222, or several separated by commas"),
    ("TIMER_BROKER_URL", "kafka://localhost:9092", "nats://host:4222, or several separated by commas"),
    ("DULY_NATS_URL", "amqp://localhost", "nats://host:4222, or several separated by commas"),
]


@pytest.mark.parametrize(("variable", "value", "allowed"), BAD, ids=[f"{name}={value[:20]}" for name, value, _ in BAD])
def test_a_bad_setting_names_the_variable_the_value_and_what_is_allowed(
    variable: str, value: str, allowed: str
) -> None:
    with pytest.raises(BadSetting) as refused:
        read_timer_settings(environment={variable: value})
    assert str(refused.value) == f"{variable}={value!r} cannot be used: expected {allowed}"


def test_a_password_in_a_bad_setting_is_not_shown() -> None:
    with pytest.raises(BadSetting) as refused:
        read_timer_settings(environment={"TIMER_BROKER_URL": "amqp://ada:lovelace@host"})
    assert "lovelace" not in str(refused.value)


def test_the_defaults_of_the_timer_service_are_those_of_the_seed_module() -> None:
    assert read_timer_settings(environment={}) == TimerSettings()
    settings = TimerSettings()
    assert (settings.polling_interval.total_seconds(), settings.batch_size) == (5, 100)
    assert settings.database_url == "sqlite:///event_service.db"
    assert settings.broker_url == "nats://localhost:4222"


def test_settings_of_the_timer_service_come_before_those_of_duly_and_an_option_before_both() -> None:
    environment = {
        "TIMER_POLLING_INTERVAL": "250",
        "TIMER_BATCH_SIZE": "7",
        "TIMER_DB_PATH": "/var/lib/timers.db",
        "TIMER_BROKER_URL": "nats://one:4222, nats://two:4222",
        "DULY_DATABASE_URL": "postgresql://localhost/duly",
        "DULY_NATS_URL": "nats://three",
    }
    settings = read_timer_settings(environment=environment)
    assert (settings.polling_interval.total_seconds(), settings.batch_size) == (0.25, 7)
    assert settings.database_url == "sqlite:////var/lib/timers.db"
    assert settings.broker_url == "nats://one:4222, nats://two:4222"
    assert read_timer_settings("sqlite:///x.db", environment).database_url == "sqlite:///x.db"
    of_duly = {name: value for name, value in environment.items() if name.startswith("DULY_")}
    settings = read_timer_settings(environment=of_duly)
    assert (settings.database_url, settings.broker_url) == ("postgresql://localhost/duly", "nats://three")


@pytest.fixture
def own(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in ("TIMER_BROKER_URL", "TIMER_DB_PATH", "TIMER_POLLING_INTERVAL", "TIMER_BATCH_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return shell


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--db", "mysql://x"), "--db 'mysql://x' cannot be used: expected sqlite:///"),
        (("--polling", "5"), "Unknown option: --polling"),
    ],
)
def test_wrong_use_of_the_timer_service_is_refused(own: Shell, words: tuple[str, ...], said: str) -> None:
    done = own("timer-service", *words)
    assert done.code == 2
    assert said in done.err


def test_a_bad_setting_ends_the_timer_service_before_it_begins(own: Shell) -> None:
    own.set(TIMER_BATCH_SIZE="lots")
    done = own("timer-service")
    assert (done.code, done.out) == (2, "")
    assert "TIMER_BATCH_SIZE='lots' cannot be used: expected a whole number of timers" in done.err
    assert not list(own.folder.glob("*.db")), "and nothing is made"


def test_the_help_of_the_timer_service_names_its_settings(own: Shell) -> None:
    done = own("timer-service", "--help")
    assert done.code == 0
    for name in ("ScheduleTimer", "DueTimeReached", "TIMER_BROKER_URL", "TIMER_DB_PATH", "TIMER_POLLING_INTERVAL"):
        assert name in done.out


# -- with a server


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


Start = Callable[..., Process]


@pytest.fixture
def start(spawn: Spawn, url: str, server: NatsServer) -> Start:
    """Starts a service, and returns when it has started."""

    def start(*words: object, **variables: str) -> Process:
        service = spawn("timer-service", "--db", url, *words, **({"TIMER_BROKER_URL": server.url} | variables))
        wait_until(lambda: "worker.started" in service.output or service.inner.poll() is not None)
        return service

    return start


def at_the_desk(server: NatsServer, act: Callable[[Desk], Any]) -> Any:
    """What somebody on the other side of the broker does, or sees."""

    async def do() -> Any:
        async with Desk(server.url) as desk:
            return await act(desk)

    return asyncio.run(do())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_timer_service_fires_what_it_is_told_and_drains_when_it_is_stopped(
    server: NatsServer, start: Start, url: str, number: signal.Signals
) -> None:
    later = [command(f"s{number}", in_seconds(3600)) for number in range(2000)]
    at_the_desk(server, lambda desk: desk.send(command("now"), *later))
    service = start()
    [event] = at_the_desk(server, lambda desk: desk.events(1))
    assert event["payload"]["serviceCallId"] == "now"
    assert service.stop(number) == 0
    assert "worker.stopped" in service.output
    with looking(url) as look:
        assert {event.status for event in look()} <= {Status.PENDING, Status.COMPLETED}
    again = start()
    wait_until(lambda: at_the_desk(server, lambda desk: desk.nothing_is_left()), told=lambda: again.output)
    assert again.stop() == 0
    assert len(at_the_desk(server, lambda desk: desk.events())) == 1
    assert "Traceback" not in service.output + again.output


def test_the_timer_service_logs_json_and_every_completion_if_told(server: NatsServer, start: Start) -> None:
    service = start("-v", DULY_LOG_FORMAT="json")
    at_the_desk(server, lambda desk: desk.send(command("s1"), b"bad"))
    wait_until(lambda: "event.completed" in service.output and "command.rejected" in service.output)
    assert service.stop() == 0
    acts = [json.loads(line)["act"] for line in service.output.splitlines()]
    assert {"worker.started", "commands.taken", "command.rejected", "event.completed", "worker.stopped"} <= set(acts)


def test_the_timer_service_ends_with_advice_without_jetstream(spawn: Spawn, url: str) -> None:
    with NatsServer(jetstream=False) as server:
        service = spawn("timer-service", "--db", url, TIMER_BROKER_URL=server.url)
        assert service.wait() == 2
    assert "this NATS server has no JetStream: start it with -js" in service.output
    assert "Traceback" not in service.output


def test_the_timer_service_ends_with_advice_on_wrong_credentials(spawn: Spawn, url: str) -> None:
    with NatsServer(more="authorization { user: ada, password: lovelace }") as server:
        wrong = server.url.replace("://", "://ada:byron@")
        service = spawn("timer-service", "--db", url, TIMER_BROKER_URL=wrong)
        assert service.wait() == 2
    assert "refuses the credentials in its URL" in service.output
    assert "byron" not in service.output
    assert "Traceback" not in service.output


def test_the_timer_service_ends_with_advice_on_a_file_that_is_no_database(
    spawn: Spawn, server: NatsServer, tmp_path: Path
) -> None:
    (tmp_path / "notes").write_text("no database\n" * 1000)
    service = spawn("timer-service", TIMER_DB_PATH="notes", TIMER_BROKER_URL=server.url)
    assert service.wait() == 1
    assert "notes is not a Duly database" in service.output
    assert "Traceback" not in service.output


def test_the_timer_service_waits_for_a_broker_and_says_so_once_for_each_connection(
    spawn: Spawn, server: NatsServer, tmp_path: Path
) -> None:
    server.kill()
    service = spawn("timer-service", TIMER_BROKER_URL=server.url, TIMER_DB_PATH=f"{tmp_path}/timers.db")
    wait_until(lambda: service.output.count("channel.down") == 2, told=lambda: service.output)
    server.start()
    wait_until(lambda: service.output.count("channel.up") == 2, told=lambda: service.output)
    at_the_desk(server, lambda desk: desk.send(command("s1")))
    at_the_desk(server, lambda desk: desk.events(1))
    assert service.stop() == 0
    assert sorted(re.findall(r"channel\.down channel=(\S+)", service.output)) == ["timer", "timer.commands"]
    assert (tmp_path / "timers.db").exists()


def test_the_timer_service_can_be_stopped_while_it_waits_for_a_broker(
    spawn: Spawn, server: NatsServer, tmp_path: Path
) -> None:
    server.kill()
    service = spawn("timer-service", TIMER_BROKER_URL=server.url, TIMER_DB_PATH=f"{tmp_path}/timers.db")
    wait_until(lambda: "channel.down" in service.output, told=lambda: service.output)
    assert service.stop() == 0
