from collections.abc import Iterator

import pytest

from tests.receivers.healthy import Healthy
from tests.receivers.hostile import Hostile
from tests.receivers.wire import Wire


@pytest.fixture(scope="session")
def hostile_process() -> Iterator[Hostile]:
    with Hostile() as hostile:
        yield hostile


@pytest.fixture
def hostile(hostile_process: Hostile) -> Hostile:
    """The run's one, which remembers nothing of earlier tests."""
    hostile_process.forget()
    return hostile_process


@pytest.fixture
def wire(hostile: Hostile) -> Iterator[Wire]:
    """A connection to the door behind which paths choose."""
    with Wire(hostile.port()) as wire:
        yield wire


@pytest.fixture(scope="session")
def healthy_process() -> Iterator[Healthy]:
    with Healthy() as healthy:
        yield healthy


@pytest.fixture
def healthy(healthy_process: Healthy) -> Healthy:
    """The run's one, which remembers nothing of earlier tests."""
    healthy_process.reset()
    return healthy_process
