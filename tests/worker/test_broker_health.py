"""Which channels can be reached: told once when that changes, whoever says so."""

from collections.abc import Callable
from typing import Any

import pytest

from duly.engine.destinations.broker_health import BrokerHealth
from duly.signals import ChannelDown, ChannelUp, Signals


class Lamp:
    """Something with a server that may be down."""

    def __init__(self, down: str | None = None) -> None:
        self.down, self.on_trial = down, False
        self.watchers: list[Callable[[], None]] = []

    def watch(self, changed: Callable[[], None]) -> None:
        self.watchers.append(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        self.watchers.remove(changed)

    def turn(self, down: str | None, *, on_trial: bool = False) -> None:
        self.down, self.on_trial = down, on_trial
        for changed in self.watchers:
            changed()


class Seen:
    def __init__(self, **lamps: Lamp) -> None:
        self.told: list[Any] = []
        self.changes = 0
        signals = Signals()
        signals.observe(self.told.append)
        self.health = BrokerHealth(lamps, signals, self.changed)
        self.health.begin()

    def changed(self) -> None:
        self.changes += 1

    def names(self) -> list[tuple[str, str]]:
        return [(type(signal).__name__, signal.channel) for signal in self.told]


def test_a_channel_that_goes_down_is_told_once_and_so_is_its_return() -> None:
    lamp = Lamp()
    seen = Seen(nats=lamp)
    assert seen.health.is_up("nats")
    for reason in ("refused", "refused", "no such host"):
        lamp.turn(reason)
        assert not seen.health.is_up("nats")
    assert seen.told == [ChannelDown("nats", "refused")]
    lamp.turn(None)
    lamp.turn(None)
    assert seen.names() == [("ChannelDown", "nats"), ("ChannelUp", "nats")]
    assert isinstance(seen.told[1], ChannelUp)
    assert seen.told[1].after.total_seconds() >= 0
    assert seen.changes == 2


def test_a_channel_on_trial_is_open_and_not_up_and_nothing_is_told_of_it() -> None:
    lamp = Lamp()
    seen = Seen(nats=lamp)
    lamp.turn("full")
    assert not seen.health.is_open("nats")
    for _ in range(3):
        lamp.turn("full", on_trial=True)
        assert (seen.health.is_open("nats"), seen.health.is_up("nats")) == (True, False)
        assert seen.health.on_trial == {"nats"}
        lamp.turn("full")
        assert not seen.health.is_open("nats")
    assert seen.told == [ChannelDown("nats", "full")]
    lamp.turn("full", on_trial=True)
    lamp.turn(None)
    assert seen.names() == [("ChannelDown", "nats"), ("ChannelUp", "nats")]
    assert (seen.health.is_open("nats"), seen.health.on_trial) == (True, frozenset())


def test_a_channel_that_is_down_at_the_start_is_told() -> None:
    seen = Seen(nats=Lamp("refused"), redis=Lamp())
    assert seen.names() == [("ChannelDown", "nats")]
    assert (seen.health.is_up("nats"), seen.health.is_up("redis")) == (False, True)
    assert seen.changes == 1


def test_channels_go_down_independently() -> None:
    one, two = Lamp(), Lamp()
    seen = Seen(one=one, two=two)
    one.turn("refused")
    two.turn("refused")
    one.turn(None)
    assert seen.names() == [("ChannelDown", "one"), ("ChannelDown", "two"), ("ChannelUp", "one")]
    assert not seen.health.is_up("two")


def test_after_the_end_of_the_health_check_nothing_is_told() -> None:
    lamp = Lamp()
    seen = Seen(nats=lamp)
    seen.health.end()
    lamp.turn("refused")
    assert not seen.told
    assert not lamp.watchers


@pytest.mark.parametrize("name", ["webhook", "handler:greet"])
def test_a_channel_without_a_health_check_is_up(name: str) -> None:
    assert Seen(nats=Lamp("refused")).health.is_up(name)
