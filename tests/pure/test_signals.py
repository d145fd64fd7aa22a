import logging
from typing import Any

import pytest

from duly.signals import Claimed, Completed, Created, Signals, WorkerStopped
from tests.make import HOUR, START, make_event

CREATED = Created(["an id"], "greet", "default", "handler:greet")


def test_an_observer_is_told_every_signal_unless_it_names_some() -> None:
    signals, all, some = Signals(), list[Any](), list[Any]()
    signals.observe(all.append)
    signals.observe(some.append, Created, WorkerStopped)
    claimed, stopped = Claimed(make_event(), "w1"), WorkerStopped("w1", 0)
    for signal in (CREATED, claimed, stopped):
        signals.emit(signal)
    assert all == [CREATED, claimed, stopped]
    assert some == [CREATED, stopped]


def test_observers_are_told_in_the_order_of_their_registration() -> None:
    signals, heard = Signals(), list[str]()
    signals.observe(lambda _: heard.append("first"))
    signals.observe(lambda _: heard.append("second"))
    signals.emit(CREATED)
    assert heard == ["first", "second"]


def test_a_failing_observer_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    signals, heard = Signals(), list[Any]()

    def broken(_: Any) -> None:
        raise RuntimeError("no connection to the metrics")

    signals.observe(broken)
    signals.observe(heard.append)
    with caplog.at_level(logging.ERROR, "duly"):
        signals.emit(CREATED)
    assert heard == [CREATED]
    [record] = caplog.records
    assert record.getMessage() == "observer.failed signal=Created"
    assert "no connection to the metrics" in str(record.exc_info)


def test_it_is_known_beforehand_whether_a_signal_has_observers() -> None:
    signals = Signals()
    assert not signals.wanted(Completed)
    signals.observe(print, Completed)
    assert signals.wanted(Completed)
    assert not signals.wanted(Created)
    signals.observe(print)
    assert signals.wanted(Created)


def test_signals_are_values() -> None:
    event = make_event()
    assert Completed(event) == Completed(event)
    assert Completed(make_event(claimed=START + HOUR)).late == HOUR
    with pytest.raises(AttributeError):
        CREATED.ids = []  # type: ignore[misc]
