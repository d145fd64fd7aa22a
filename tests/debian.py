"""Servers that no wheel has, from packages of Debian: fetched once, unpacked into a cache and run from there. It takes
apt-get and dpkg, and no root."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "duly-tests"


def unpacked(package: str) -> Path:
    """The folder that holds a package and what it depends on, as far as this system does not have that itself."""
    folder = CACHE / package
    CACHE.mkdir(parents=True, exist_ok=True)
    with _alone(CACHE / f"{package}.lock"):
        if not folder.exists():
            anew = CACHE / f"{package}.new"
            shutil.rmtree(anew, ignore_errors=True)
            _fetch(package, anew)
            anew.rename(folder)
    return folder


def _fetch(package: str, folder: Path) -> None:
    """With lists of packages of its own: those of the system may be missing, or too old to find anything by."""
    lists, cache, packages = folder / "lists", folder / "cache", folder / "packages"
    for made in (lists / "partial", cache / "archives/partial", packages):
        made.mkdir(parents=True)
    own = [f"Dir::State::Lists={lists}", f"Dir::Cache={cache}", "APT::Sandbox::User=root"]
    apt = ["apt-get", "-qq", *(option for setting in own for option in ("-o", setting))]
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
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
