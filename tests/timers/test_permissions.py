"""What the service's user may do: all that it needs is written down, and what is missing is told."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from duly import Misuse
from duly.channels.brokers import channel, nats_commands
from duly.signals import ChannelDown, ChannelUp, Completed
from duly.timer_service.service import COMMANDS, TimerService, TimerSettings
from tests.brokers import NatsServer
from tests.timers.conftest import Serve, Served
from tests.timers.desk import Desk, command, in_seconds
from tests.worker.running_worker import until

PULL, ACK = "$JS.API.CONSUMER.MSG.NEXT.>", "$JS.ACK.>"
Kind = TypeVar("Kind", ChannelDown, ChannelUp)
PAGE = Path(__file__).parents[2] / "docs/timer-service.md"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The store does not matter here."""
    return f"sqlite:///{tmp_path}/timers.db"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "LONGEST", 0.2)
    monkeypatch.setattr(nats_commands, "ACKNOWLEDGED_WITHIN", nats_commands.ACKNOWLEDGED_WITHIN / 20)


def users(permissions: str) -> str:
    return f"authorization {{ users: [{{ user: ada, password: x, {permissions} }}, {{ user: desk, password: x }}] }}"


def denied(*subjects: str) -> str:
    return users(f"permissions: {{ publish: {{ deny: {json.dumps(subjects)} }} }}")


def ours(server: NatsServer) -> str:
    return server.url.replace("://", "://ada:x@")


def theirs(server: NatsServer) -> str:
    return server.url.replace("://", "://desk:x@")


async def test_the_documented_permissions_are_enough(serve: Serve) -> None:
    publish, subscribe = documented()
    permissions = f"publish: {{ allow: {json.dumps(publish)} }}, subscribe: {{ allow: {json.dumps(subscribe)} }}"
    with NatsServer(more=users(f"permissions: {{ {permissions} }}")) as server:
        async with Desk(theirs(server)) as desk, serve(broker_url=ours(server)) as served:
            await desk.send(command("s1"), b"bad")
            await desk.events(1)
            await desk.rejected(1)
            await until(desk.nothing_is_left, "both are acknowledged")
            await until(lambda: served.told.of(Completed), "it is settled")
            assert not served.told.of(ChannelDown)


def documented() -> tuple[Sequence[str], Sequence[str]]:
    page = PAGE.read_text(encoding="utf-8")
    [(publish, subscribe)] = re.findall(r"has to publish to (.*?), and to subscribe to (.*?)\.\n", page, re.DOTALL)
    return re.findall(r"`([^`]+)`", publish), re.findall(r"`([^`]+)`", subscribe)


@pytest.mark.parametrize(
    ("subject", "harm"), [(PULL, "no commands can be received"), (ACK, "are redelivered again and again")]
)
async def test_a_service_without_a_permission_at_the_start_ends_with_what_is_missing(
    url: str, subject: str, harm: str
) -> None:
    with NatsServer(more=denied(subject)) as server:
        async with Desk(theirs(server)) as desk:
            await desk.send(command("s1", in_seconds(3600)))
            service = TimerService(TimerSettings(database_url=url, broker_url=ours(server)))
            with pytest.raises(Misuse, match=harm) as raised:
                await asyncio.wait_for(service.run(signals=False), 30)
            assert f"the user has no permission to publish to '{subject[:-1]}" in str(raised.value)


@pytest.mark.parametrize("subject", [PULL, ACK])
async def test_a_service_that_loses_a_permission_says_so_once_and_waits(serve: Serve, subject: str) -> None:
    """Somebody has changed the server's configuration, and changes it back."""
    with NatsServer(more=users("permissions: {}")) as server:
        async with Desk(theirs(server)) as desk, serve(broker_url=ours(server)) as served:
            await desk.send(command("s1", in_seconds(3600)))
            await until(desk.nothing_is_left, "it has worked")
            configuration = server.folder / "configuration"
            before = configuration.read_text()
            configuration.write_text(before.replace(users("permissions: {}"), denied(subject)))
            await restarted(server)
            await desk.send(command("s2", in_seconds(3600)))
            await until(lambda: len(told(served, ChannelDown)) == 2, "the restart is one outage, and this is another")
            assert subject[:-1] in told(served, ChannelDown)[-1].reason
            await asyncio.sleep(2)  # it tries again, which nobody is told of
            assert (len(told(served, ChannelDown)), len(told(served, ChannelUp))) == (2, 1)
            assert served.running
            assert not served.running.done()
            configuration.write_text(before)
            await restarted(server)
            await until(desk.nothing_is_left, "the other one is acknowledged as well")
            await until(lambda: len(told(served, ChannelUp)) == 2, "it is told that it is back")
            assert len(told(served, ChannelDown)) == 2


def told(served: Served, kind: type[Kind]) -> list[Kind]:
    return [signal for signal in served.told.of(kind) if signal.channel == COMMANDS]


async def restarted(server: NatsServer) -> None:
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
