"""Fixtures for pytest, which finds them by itself. A conftest.py replaces ``duly_app``, which names the program's Duly:

    @pytest.fixture
    def duly_app():
        return shop.duly

Loaded in every run of pytest, so it imports nothing of Duly before a fixture is asked for.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from duly import Duly
    from duly.testing import Sent

TEST_DATABASE = "DULY_TEST_DATABASE_URL"
"""The environment variable with the URL of a PostgreSQL database for tests."""


@pytest.fixture
def duly_app() -> "Duly":
    """The Duly that is tested; one with nothing registered, unless a conftest.py names another."""
    from duly import Duly

    return Duly("sqlite://")


@pytest.fixture(scope="session")
def duly_url() -> str:
    """The database of the tests: SQLite in memory, or that of DULY_TEST_DATABASE_URL, one for each process of
    pytest-xdist."""
    process = os.environ.get("PYTEST_XDIST_WORKER")
    base, mark, options = os.environ.get(TEST_DATABASE, "sqlite://").partition("?")
    own = base if process is None or base == "sqlite://" else f"{base}_{process}"
    return own + mark + options


@pytest.fixture
def duly_sent(duly_app: "Duly", duly_url: str) -> "Iterator[Sent]":
    """What was sent by webhook, HTTP or broker; nothing leaves the test."""
    from duly.testing import rebound

    with rebound(duly_app, duly_url) as sent:
        yield sent


@pytest.fixture
def duly(duly_app: "Duly", duly_sent: "Sent") -> "Duly":
    """The program's Duly on an empty database of the test. It is not open: ``travel(duly)`` opens it, as do
    ``async with duly:`` and ``with duly.sync:``."""
    return duly_app
