"""Where SQLite's file is made, and where it is not."""

import logging
from pathlib import Path

import pytest

from duly import Duly
from duly.errors import StoreError
from duly.signals import FileCreated


async def opened(path: Path) -> list[FileCreated]:
    """What is told when a database is opened."""
    duly, told = Duly(f"sqlite:///{path}"), list[FileCreated]()
    duly.observe(told.append, FileCreated)
    async with duly:
        return told


async def test_a_new_database_file_in_an_existing_folder_is_made_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "duly"):
        assert await opened(tmp_path / "new.db") == [FileCreated(str(tmp_path / "new.db"))]
        assert await opened(tmp_path / "new.db") == []
    assert [record.getMessage() for record in caplog.records] == [f"store.created file={tmp_path / 'new.db'}"]


async def test_a_missing_folder_of_a_database_file_is_not_made(tmp_path: Path) -> None:
    said = f"^there is no folder {tmp_path / 'typo'} for the database duly.db: create it, or correct the path$"
    with pytest.raises(StoreError, match=said):
        await opened(tmp_path / "typo" / "duly.db")
    assert not (tmp_path / "typo").exists()


async def test_a_database_in_memory_makes_no_file() -> None:
    duly, told = Duly("sqlite://"), list[FileCreated]()
    duly.observe(told.append, FileCreated)
    async with duly:
        assert told == []
