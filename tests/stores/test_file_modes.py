"""Who may read a SQLite file."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly import Duly
from tests.make import HOUR


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


async def test_a_new_database_file_and_its_companions_are_readable_by_the_owner_alone(tmp_path: Path) -> None:
    async with Duly(f"sqlite:///{tmp_path}/duly.db") as app:
        await app.after(HOUR, "x")
        assert modes(tmp_path) == {"duly.db": 0o600, "duly.db-wal": 0o600, "duly.db-shm": 0o600}


async def test_an_existing_database_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "duly.db"
    path.touch(mode=0o660)
    path.chmod(0o660)
    async with Duly(f"sqlite:///{path}") as app:
        await app.after(HOUR, "x")
        assert modes(tmp_path) == {"duly.db": 0o660, "duly.db-wal": 0o660, "duly.db-shm": 0o660}
