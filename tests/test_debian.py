from pathlib import Path

import pytest

from tests import debian
from tests.debian import FetchFailed, unpacked


class Archive:
    """One that is out of reach so many times."""

    def __init__(self, fails: int) -> None:
        self.fails, self.asked = fails, 0

    def fetch(self, package: str, folder: Path) -> None:
        self.asked += 1
        if self.asked <= self.fails:
            raise FetchFailed("apt-get update failed: no route to host")
        (folder / package).mkdir(parents=True)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "CACHE", tmp_path)
    monkeypatch.setattr(debian, "PAUSES", (0, 0))


def test_an_archive_that_is_out_of_reach_for_a_moment_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive(fails=2)
    monkeypatch.setattr(debian, "_fetch", archive.fetch)
    assert (unpacked("server") / "server").is_dir()
    assert unpacked("server").is_dir()
    assert archive.asked == 3, "and not for what is there already"


def test_an_archive_that_stays_out_of_reach_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive(fails=99)
    monkeypatch.setattr(debian, "_fetch", archive.fetch)
    with pytest.raises(FetchFailed, match="no route to host"):
        unpacked("server")
    assert archive.asked == 3
