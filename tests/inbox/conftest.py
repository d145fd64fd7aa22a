from collections.abc import Iterator
from pathlib import Path

import django
import pytest
from django.conf import settings
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from tests.inbox.callers import Places


@pytest.fixture
def places(clean_postgres: str, tmp_path: Path) -> Places:
    """A receiver's own databases, with the table for ids and one for effects."""
    places = Places(clean_postgres, tmp_path / "receiver.db")
    places.make_tables()
    return places


@pytest.fixture(scope="session")
def _configured(postgres_url: str) -> None:
    """Django is configured once in a process; its database is this process's own all the while."""
    known = conninfo_to_dict(postgres_url)
    postgres = {"NAME": known["dbname"], "USER": known["user"], "HOST": known["host"], "PORT": known["port"]}
    settings.configure(
        DATABASES={
            "default": {"ENGINE": "django.db.backends.postgresql"} | postgres,
            "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": "set by each test"},
        },
        ALLOWED_HOSTS=["*"],
        LOGGING_CONFIG=None,
        SECRET_KEY="no matter",
        TIME_ZONE="UTC",
    )
    django.setup()


@pytest.fixture
def with_django(_configured: None, places: Places) -> Iterator[Places]:
    connections.settings["lite"]["NAME"] = str(places.sqlite)
    yield places
    connections.close_all()
