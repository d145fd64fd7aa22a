"""A host of its own for a process under test: a network namespace whose packets can be dropped in silence.

    with Namespace() as other:
        with Postgres(networks=[other.network]) as server:
            url = other.reaching(server.url)
            worker = subprocess.Popen([*other.enter, sys.executable, "-m", "duly", "worker", "--db", url])
            other.cut()    # no packet arrives any more, and nobody is told
            other.mend()

It takes root and the ``ip`` command (Debian: iproute2), and nothing else: a neighbour entry with a hardware address
that nobody has makes the kernel send packets that nobody takes, without an error on either side.
"""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import pytest

NOBODY = "02:00:00:00:00:01"
"""A hardware address that no interface has."""

NETWORK = 0x40000000  # CLONE_NEWNET of setns(2)

_made = 0


class Namespace:
    """One side of the link is in this process's own network (``host``), the other inside (``guest``)."""

    def __init__(self) -> None:
        global _made
        _made += 1
        # Unique among the test processes of this machine: the process id, and how many this process has made.
        token = f"{os.getpid():x}x{_made:x}"
        self.name, self._outer, self._inner = f"duly-{token}", f"do{token}", f"di{token}"
        block = (os.getpid() * 4 + _made) % (1 << 15)
        address = (198 << 24 | 18 << 16) + block * 4  # 198.18.0.0/15 is set aside for tests between hosts (RFC 2544)
        self.host, self.guest = _dotted(address + 1), _dotted(address + 2)
        self.network = f"{_dotted(address)}/30"

    def __enter__(self) -> Self:
        require_namespaces()
        try:
            _ip("netns", "add", self.name)
            _ip("link", "add", self._outer, "type", "veth", "peer", "name", self._inner, "netns", self.name)
            _ip("address", "add", f"{self.host}/30", "dev", self._outer)
            _ip("link", "set", self._outer, "up")
            self._inside("address", "add", f"{self.guest}/30", "dev", self._inner)
            self._inside("link", "set", self._inner, "up")
            self._inside("link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for gone in (["link", "delete", self._outer], ["netns", "delete", self.name]):
            subprocess.run(["ip", *gone], check=False, capture_output=True)

    @property
    def enter(self) -> list[str]:
        """What comes before a command that is to run inside."""
        return ["ip", "netns", "exec", self.name]

    def reaching(self, url: str) -> str:
        """The URL by which a server of this machine is known inside."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        return url.replace(f"@{parts.hostname}:", f"@{self.host}:").replace(f"//{parts.hostname}:", f"//{self.host}:")

    def cut(self) -> None:
        """Drop what is sent, in both directions. Nothing is answered, nothing is refused."""
        _ip("neighbour", "replace", self.guest, "lladdr", NOBODY, "dev", self._outer, "nud", "permanent")
        self._inside("neighbour", "replace", self.host, "lladdr", NOBODY, "dev", self._inner, "nud", "permanent")

    def mend(self) -> None:
        _ip("neighbour", "delete", self.guest, "dev", self._outer)
        self._inside("neighbour", "delete", self.host, "dev", self._inner)

    def _inside(self, *arguments: str) -> None:
        _ip("-netns", self.name, *arguments)


def join(name: str) -> None:
    """Move this process into a namespace. Threads that it has beside its first one would stay outside."""
    library = ctypes.CDLL(None, use_errno=True)
    with Path(f"/run/netns/{name}").open() as namespace:
        if library.setns(namespace.fileno(), NETWORK) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {name}")


def require_namespaces() -> None:
    """Skip where they cannot be made, but not in CI."""
    missing = "it takes root to make network namespaces" if os.geteuid() != 0 else None
    if missing is None and shutil.which("ip") is None:
        missing = "the command `ip` is missing (Debian: apt-get install iproute2)"
    if missing is not None and os.environ.get("CI"):
        pytest.fail(missing)
    if missing is not None:
        pytest.skip(missing)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")


def _dotted(address: int) -> str:
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))
