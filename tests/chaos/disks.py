"""A small disk that a test can fill: a tmpfs of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEGABYTES = 16


@contextmanager
def small_disk() -> Iterator[Path]:
    """Mounted for this test alone. Skip where that is not possible, but not in CI."""
    missing = None if os.geteuid() == 0 and shutil.which("mount") else "it takes root to mount a small disk"
    folder = Path(tempfile.mkdtemp(prefix="duly-disk-"))
    try:
        if missing is None:
            words = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "duly", str(folder)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            missing = done.stderr.strip() or None
        if missing is not None and os.environ.get("CI"):
            pytest.fail(missing)
        if missing is not None:
            pytest.skip(missing)
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        folder.rmdir()
