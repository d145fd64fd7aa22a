from collections.abc import Iterator

import pytest

from tests.receivers.healthy import Healthy


@pytest.fixture(scope="session")
def healthy_process() -> Iterator[Healthy]:
    with Healthy() as healthy:
        yield healthy


@pytest.fixture
def healthy(healthy_process: Healthy) -> Healthy:
    """The run's one, which remembers nothing of earlier tests."""
    healthy_process.reset()
    return healthy_process
