"""Servers that no wheel has, from packages of Debian: fetched once, unpacked into a cache and run from there. It takes
apt-get and dpkg, and no root."""

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RABBITMQ = "rabbitmq-server"
PROMETHEUS = "prometheus"

PAUSES = (5, 20)
"""Seconds between tries to fetch what an archive has not given."""

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "duly-tests"


class FetchFailed(RuntimeError):
    """With the end of what was said about it."""


def unpacked(package: str) -> Path:
    """The folder that holds a package and what it depends on, as far as this system does not have that itself."""
    folder = CACHE / package
    CACHE.mkdir(parents=True, exist_ok=True)
    with _alone(CACHE / f"{package}.lock"):
        if not folder.exists():
            anew = CACHE / f"{package}.new"
            _persist(package, anew)
            anew.rename(folder)
    return folder


def _persist(package: str, folder: Path) -> None:
    """An archive may be out of reach for a moment."""
    for pause in (*PAUSES, None):
        try:
            _fetch(package, folder)
        except FetchFailed:
            if pause is None:
                raise
            time.sleep(pause)
        else:
            return


def _fetch(package: str, folder: Path) -> None:
    """With lists of packages of its own: those of the system may be missing, or too old to find anything by."""
    shutil.rmtree(folder, ignore_errors=True)
    lists, cache, packages = folder / "lists", folder / "cache", folder / "packages"
    for made in (lists / "partial", cache / "archives/partial", packages):
        made.mkdir(parents=True)
    own = [f"Dir::State::Lists={lists}", f"Dir::Cache={cache}", "APT::Sandbox::User=root"]
    patient = ["Acquire::Retries=5", "Acquire::http::Timeout=30", "Acquire::https::Timeout=30"]
    apt = ["apt-get", "-qq", *(option for setting in (*own, *patient) for option in ("-o", setting))]
    _run([*apt, "update"])
    planned = _run([*apt, "--simulate", "--no-install-recommends", "--reinstall", "install", package])
    names = [line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")]
    _run([*apt, "download", *names], cwd=packages)
    for archive in packages.iterdir():
        _run(["dpkg", "-x", str(archive), str(folder)])
    for left in (lists, cache, packages):
        shutil.rmtree(left)


def _run(command: list[str], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RuntimeError(f"{command[0]} is not to be found: this server comes from packages of Debian") from None
    if done.returncode != 0:
        raise FetchFailed(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
