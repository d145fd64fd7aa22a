"""`duly serve`, as a process of its own: where it listens, whom it lets in, and how it ends."""

import asyncio
import contextlib
import json
import re
import signal
import socket
import threading
from typing import Any

import httpx
import pytest

from duly import Duly
from duly.records.api_key import write_key
from tests.cli.conftest import Process, Shell, Spawn, wait_until
from tests.descriptors import none_free
from tests.servers import Postgres

OPEN = ("/docs", "/openapi.json", "/healthz", "/readyz")


def address(process: Process) -> str:
    """Where it says that it serves."""

    def found() -> re.Match[str] | None:
        assert process.inner.poll() is None, process.output
        return re.search(r"Duly serves (http://\S+?);", process.output)

    return str(wait_until(found, told=lambda: process.output)[1])


def ready(process: Process) -> str:
    """The same, once it has its database: until then, requests are told to come again."""
    base = address(process)
    wait_until(lambda: ask("GET", f"{base}/readyz").status_code == 200, told=lambda: process.output)
    return base


def ask(method: str, url: str, **options: Any) -> httpx.Response:
    return httpx.request(method, url, timeout=30, trust_env=False, **options)


def a_key(url: str) -> str:
    """Make a key, past the server."""

    async def make() -> str:
        async with Duly(url) as app:
            return (await app.keys.create("console", scope="admin")).secret

    return asyncio.run(make())


def lite(shell: Shell) -> str:
    return f"sqlite:///{shell.folder}/duly.db"


def test_serve_says_where_it_listens_and_stops_when_told(shell: Shell, spawn: Spawn) -> None:
    process = spawn("serve", "--port", "0", DULY_DATABASE_URL=lite(shell))
    base = ready(process)
    assert f"{base}/docs" in process.output
    for path in (*OPEN, "/metrics"):
        assert ask("GET", base + path).status_code == 200, path
    assert ask("PUT", f"{base}/v1/timers/a", json={"after": "1h", "type": "x"}).status_code == 201
    assert process.stop() == 0, process.output
    assert "Traceback" not in process.output


def test_only_paths_without_data_of_tenants_need_no_key(shell: Shell, spawn: Spawn) -> None:
    process = spawn("serve", "--port", "0", "--no-worker", DULY_DATABASE_URL=lite(shell))
    base = ready(process)
    assert ask("GET", f"{base}/v1/events").status_code == 200
    secret = a_key(lite(shell))  # in another process than the server's
    assert ask("GET", f"{base}/v1/events").status_code == 401
    assert ask("GET", f"{base}/v1/events", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    for path in OPEN:
        assert ask("GET", base + path).status_code == 200, path


def test_serve_does_not_start_beyond_this_machine_without_keys(shell: Shell) -> None:
    refused = shell("serve", "--host", "0.0.0.0", "--port", "0", "--db", lite(shell))
    assert refused.code == 2
    assert "can be reached from other machines, but there is no API key yet" in refused.err
    assert "duly keys create" in refused.err


def test_serve_starts_beyond_this_machine_with_keys(shell: Shell, spawn: Spawn) -> None:
    secret = a_key(lite(shell))
    process = spawn("serve", "--host", "0.0.0.0", "--port", "0", DULY_DATABASE_URL=lite(shell))
    base = address(process).replace("0.0.0.0", "127.0.0.1")
    wait_until(lambda: ask("GET", f"{base}/readyz").status_code == 200, told=lambda: process.output)
    assert ask("GET", f"{base}/v1/events").status_code == 401
    assert ask("GET", f"{base}/v1/events", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    assert process.stop() == 0, process.output


def test_a_port_that_is_taken_is_told(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = shell("serve", "--port", port, "--db", lite(shell))
    assert refused.code == 2
    assert f"cannot listen on 127.0.0.1, port {port}" in refused.err
    assert "--port" in refused.err


@pytest.mark.parametrize(
    "words", [("--port", "70000"), ("--port", "-1"), ("--port", "http"), ("--host", ""), ("--host", "no such host")]
)
def test_an_address_that_cannot_be_listened_on_is_refused(shell: Shell, words: tuple[str, str]) -> None:
    refused = shell("serve", *words, "--db", lite(shell))
    assert refused.code == 2
    assert refused.err.strip()
    assert "Traceback" not in refused.err


def test_serve_warns_as_long_as_there_is_no_key(shell: Shell, spawn: Spawn) -> None:
    process = spawn("serve", "--port", "0", "--no-worker", DULY_DATABASE_URL=lite(shell))
    wait_until(lambda: "warning: there is no API key" in process.output, told=lambda: process.output)
    assert process.stop() == 0
    a_key(lite(shell))
    with_key = spawn("serve", "--port", "0", "--no-worker", DULY_DATABASE_URL=lite(shell))
    base = ready(with_key)
    assert ask("GET", f"{base}/v1/events").status_code == 401
    assert with_key.stop() == 0
    assert "warning" not in with_key.output


def test_the_proxies_that_are_trusted_come_from_the_environment(shell: Shell, spawn: Spawn) -> None:
    """Each guess comes from another address, of which a proxy on loopback tells: none of them is one too many."""
    a_key(lite(shell))
    options = {"DULY_DATABASE_URL": lite(shell), "DULY_TRUSTED_PROXIES": "127.0.0.0/8"}
    base = ready(spawn("serve", "--port", "0", "--no-worker", **options))
    with httpx.Client(base_url=base, timeout=30, trust_env=False) as client:
        for number in range(60):
            guess = write_key(number.to_bytes(32, "big"))
            headers = {"Authorization": f"Bearer {guess}", "X-Forwarded-For": f"198.51.100.{number}"}
            assert client.get("/v1/events", headers=headers).status_code == 401


def test_idle_connections_keep_no_request_out_and_log_next_to_nothing(shell: Shell, spawn: Spawn) -> None:
    process = spawn("serve", "--port", "0", files=128, DULY_DATABASE_URL=lite(shell))
    base = ready(process)
    port = int(base.rpartition(":")[2])
    before = len(process.output.splitlines())
    with contextlib.ExitStack() as opened:
        for _ in range(400):
            opened.enter_context(socket.create_connection(("127.0.0.1", port), 30))
        for _ in range(5):
            assert ask("GET", f"{base}/v1/events").status_code == 200
    assert "connections.full" in process.output
    assert len(process.output.splitlines()) - before <= 5, process.output
    assert process.stop() == 0, process.output


def test_a_server_without_a_free_file_waits_says_so_once_and_goes_on(shell: Shell, spawn: Spawn) -> None:
    process = spawn("serve", "--port", "0", "--no-worker", DULY_DATABASE_URL=lite(shell))
    base = ready(process)
    port = int(base.rpartition(":")[2])
    before = len(process.output.splitlines())
    with contextlib.ExitStack() as opened:
        with none_free(process.pid):
            for _ in range(50):
                opened.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            wait_until(lambda: "connections.not_accepted" in process.output, told=lambda: process.output)
        assert ask("GET", f"{base}/v1/events").status_code == 200
    assert len(process.output.splitlines()) - before <= 5, process.output


def test_serve_without_a_worker_fires_nothing(shell: Shell, spawn: Spawn) -> None:
    options = {"DULY_DATABASE_URL": lite(shell), "DULY_APP": "shop:duly"}
    process = spawn("serve", "--port", "0", "--no-worker", **options)
    base = ready(process)
    ask("PUT", f"{base}/v1/timers/a", json={"after": "0s", "type": "greet", "payload": 1}).raise_for_status()
    assert ask("GET", f"{base}/v1/timers/a").json()["status"] == "PENDING"
    assert process.stop() == 0
    with_worker = spawn("serve", "--port", "0", **options)
    base = ready(with_worker)
    wait_until(lambda: ask("GET", f"{base}/v1/timers/a").json()["status"] == "COMPLETED")
    assert shell.told() == ["hello 1"]
    assert with_worker.stop() == 0


def test_a_waiting_request_is_answered_when_the_server_is_stopped(shell: Shell, spawn: Spawn) -> None:
    process = spawn("serve", "--port", "0", DULY_DATABASE_URL=lite(shell), DULY_APP="shop:duly")
    base = ready(process)
    ask("PUT", f"{base}/v1/schedules/s", json={"type": "slow", "rule": {"every": "1d"}}).raise_for_status()
    answers: list[httpx.Response] = []

    def trigger() -> None:
        answers.append(ask("POST", f"{base}/v1/schedules/s/trigger", headers={"Prefer": "wait=20"}))

    waiting = threading.Thread(target=trigger)
    waiting.start()
    wait_until(lambda: any(line.startswith("begin") for line in shell.told()))
    process.inner.send_signal(signal.SIGTERM)
    shell.write("finish", "")
    assert process.wait() == 0, process.output
    waiting.join(30)
    [answer] = answers
    # Who stops does not wait for what may take a minute: it is answered as it was then.
    assert (answer.status_code, answer.json()["status"]) in [(201, "PROCESSING"), (201, "COMPLETED")]
    assert "Traceback" not in process.output


def test_a_database_that_comes_later_is_used_when_it_comes(shell: Shell, spawn: Spawn) -> None:
    with Postgres() as database:
        url = database.create_database("later")
        database.stop()
        process = spawn("serve", "--port", "0", DULY_DATABASE_URL=url)
        base = address(process)
        assert ask("GET", f"{base}/healthz").status_code == 200
        unready = ask("GET", f"{base}/readyz")
        assert (unready.status_code, unready.json()["status"]) == (503, 503)
        refused = ask("PUT", f"{base}/v1/timers/a", json={"after": "1h", "type": "x"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert str(database.port) not in refused.text
        database.start()
        wait_until(lambda: ask("GET", f"{base}/readyz").status_code == 200, told=lambda: process.output)
        assert ask("PUT", f"{base}/v1/timers/a", json={"after": "1h", "type": "x"}).status_code == 201
        assert process.stop() == 0, process.output


def test_nothing_of_a_request_is_in_the_output(shell: Shell, spawn: Spawn) -> None:
    process = spawn("serve", "--port", "0", DULY_DATABASE_URL=lite(shell), DULY_LOG_FORMAT="json")
    base = ready(process)
    marked = {"after": "1h", "type": "x", "payload": "zyxmarkerzyx"}
    ask("PUT", f"{base}/v1/timers/zyxmarkerzyx", json=marked)
    ask("GET", f"{base}/v1/zyxmarkerzyx?zyxmarkerzyx", headers={"Authorization": "Bearer zyxmarkerzyx"})
    with socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as line:
        line.sendall(b"zyxmarkerzyx\r\n\r\n")
        line.recv(1000)
    assert process.stop() == 0
    assert "zyxmarkerzyx" not in process.output
    told = [json.loads(line) for line in process.output.splitlines() if line.startswith("{")]
    assert any(line["act"] == "request.answered" and line["route"] == "/v1/timers/{key}" for line in told)
