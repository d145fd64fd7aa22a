"""The demo's broker: a NATS server of its own, a service that requests timers over it, and the messages that come
back."""

import asyncio
import contextlib
import json
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from duly.channels.brokers.channel import BrokerDown, end_if_cancelled
from duly.cli.demo.receiver import Arrival
from duly.duly import Duly
from duly.timer_service.messages import REACHED, SCHEDULE
from duly.timer_service.service import TimerBroker, open_broker, take_timers
from duly.values.instants import write_instant

HOST = "127.0.0.1"
COMMANDS_AT_ONCE = 100
"""Commands that are taken from the broker at a time."""

CALL_OFFSETS_S = (6, 9)
"""Seconds after the start of each round at which a service call is due."""

# Ends the server and removes its folder when the pipe closes: at the end, and when the demo is killed.
WATCHED = '"$@" & server=$!; read -r _; kill -9 "$server"; wait "$server" 2>/dev/null; rm -rf "$FOLDER"'


def server() -> str | None:
    """The path of nats-server in this environment or on this machine; None if there is none."""
    beside = Path(sys.executable).with_name("nats-server")
    return (str(beside) if beside.exists() else shutil.which("nats-server")) if find_spec("nats") else None


class DemoBroker:
    """A NATS server that runs while this context is open."""

    def __init__(self, binary: str, tenant: str, hear: Callable[[Arrival], None]) -> None:
        self._binary, self._tenant, self._hear = binary, tenant, hear
        self._port = _free_port()
        self.url = f"nats://{HOST}:{self._port}"
        self.broker: TimerBroker = open_broker(self.url)

    async def __aenter__(self) -> Self:
        from nats.aio.client import Client

        folder = tempfile.mkdtemp(prefix="duly-demo-nats-")
        arguments = [self._binary, "-a", HOST, "-p", str(self._port), "-js", "-sd", folder]
        self._server = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", WATCHED, "nats", *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"FOLDER": folder, "PATH": "/usr/bin:/bin"},
            start_new_session=True,  # Ctrl-C must reach only the demo
        )
        await asyncio.to_thread(_wait_for, self._port)
        await self.broker.commands.prepare()
        self._client = Client()
        await self._client.connect(self.url)
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            await self._client.close()
        await self.broker.commands.close()
        assert self._server.stdin is not None
        self._server.stdin.close()
        await self._server.wait()

    async def take_in(self, duly: Duly) -> None:
        """Turns commands into timers, forever."""
        intake = take_timers(duly, self.broker.commands, COMMANDS_AT_ONCE)
        while True:
            end_if_cancelled()
            try:
                await intake.round(1.0)
            except BrokerDown:
                await asyncio.sleep(0.5)

    async def ask(self) -> None:
        """Sends the timer commands of the example service."""
        for seconds in CALL_OFFSETS_S:
            due = datetime.now(UTC) + timedelta(seconds=seconds)
            name = f"call {seconds}-{secrets.token_hex(2)}"
            command = {
                "id": secrets.token_hex(8),
                "type": SCHEDULE,
                "tenantId": self._tenant,
                "timestampMs": int(time.time() * 1000),
                "payload": {"tenantId": self._tenant, "serviceCallId": name, "dueAt": write_instant(due)},
            }
            await self._client.jetstream().publish("timer.commands", json.dumps(command).encode())

    async def listen(self) -> None:
        """Receives the messages for the example service."""
        heard = await self._client.jetstream().subscribe("timer.events")
        async for message in heard.messages:
            said = json.loads(message.data)
            self._hear(Arrival(said["id"], REACHED, f"{said['payload']['serviceCallId']}, over NATS"))
            await message.ack()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


def _wait_for(port: int, patience: float = 10) -> None:
    deadline = time.monotonic() + patience
    while True:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"nats-server does not answer on port {port}")
        time.sleep(0.02)
