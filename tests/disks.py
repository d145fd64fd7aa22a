"""A small disk that a test may fill: a file system in memory, mounted for as long as it is needed. It takes root.

with SmallDisk(megabytes=4) as disk:
    duly = Duly(f"sqlite:///{disk.folder}/duly.db")
    disk.fill()    # whoever writes to it finds no space
    disk.free()
"""

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import pytest


class SmallDisk:
    def __init__(self, *, megabytes: int) -> None:
        self._size = f"size={megabytes}m"
        self.folder = Path()

    def __enter__(self) -> Self:
        require_mounts()
        self.folder = Path(tempfile.mkdtemp(prefix="duly-disk-"))
        try:
            _run("mount", "-t", "tmpfs", "-o", f"{self._size},mode=0777", "tmpfs", str(self.folder))
        except BaseException:
            self.folder.rmdir()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _run("umount", "--lazy", str(self.folder))  # also where a test that failed has left a file open
        self.folder.rmdir()

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def fill(self) -> None:
        """To the last byte."""
        with contextlib.suppress(OSError), self._filler.open("ab", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        space = os.statvfs(self.folder)
        assert space.f_bavail == 0

    def free(self) -> None:
        self._filler.unlink()


def require_mounts() -> None:
    """Skip where a disk cannot be mounted, but not in CI."""
    if os.geteuid() != 0 and os.environ.get("CI"):
        pytest.fail("it takes root to mount a small disk")
    if os.geteuid() != 0:
        pytest.skip("it takes root to mount a small disk")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]} failed: {done.stderr.strip()}"
