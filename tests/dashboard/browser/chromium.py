"""A real Chromium: one process for all tests, with a profile of its own, in which each test gets windows of its own."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")

STARTS_WITHIN_S = 60.0
"""Seconds that Chromium may take to listen, on a busy machine."""

ZONE = "Europe/Brussels"
"""The time zone of the person at the browser."""

OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",  # it would look for updates
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


def path_of_chromium() -> str:
    """Where Chromium is. It is a package of Debian, which takes root to install: without it, the tests are skipped, but
    not in CI, whose set-up installs it."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium is missing: apt-get install chromium")
        pytest.skip("Chromium is missing: apt-get install chromium")
    return found


@contextmanager
def chromium(folder: Path) -> Iterator[str]:
    """The address at which a Chromium takes orders; it ends with the context."""
    port_file = folder / "DevToolsActivePort"
    process = subprocess.Popen(
        [path_of_chromium(), *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
        env={**os.environ, "TZ": ZONE},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ends = time.monotonic() + STARTS_WITHIN_S
        while not (port_file.exists() and "\n" in port_file.read_text(encoding="ascii")):
            assert process.poll() is None, "Chromium has ended"
            assert time.monotonic() < ends, "Chromium does not listen"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port_file.read_text(encoding='ascii').splitlines()[0]}"
    finally:
        process.terminate()
        process.wait(30)
