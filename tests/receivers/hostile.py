"""A receiver that does whatever the path of the request says, most of it wrong.

    with Hostile() as hostile:
        ...                                                  # deliver to hostile.url("/status/503?retry-after=7")
        [request] = hostile.requests()
        assert not request.reused

The paths are those of `answering`, `stalling`, `flooding`, `malformed` and `severing`; what happens before a path can
be read is a door of its own (`doors`): ``hostile.url("/ok", "expired")``.
"""

import tempfile
from pathlib import Path
from typing import Self

import msgspec

from tests.receivers.asked import Request
from tests.receivers.certificates import AUTHORITY, make_certificates
from tests.receivers.doors import OPEN, SPEAKS_TLS
from tests.receivers.own_process import HERE, OwnProcess


class Connections(msgspec.Struct, frozen=True):
    open: int
    accepted: int
    sent: int  # bytes, as far as the system took them


class Hostile:
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="duly-hostile-")
        make_certificates(Path(self._folder.name))
        self._process = OwnProcess("tests.receivers.hostile_server", self._folder.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()
        self._folder.cleanup()

    @property
    def authority(self) -> Path:
        """The PEM file that a client must trust for the door ``trusted``."""
        return Path(self._folder.name, AUTHORITY)

    @property
    def pid(self) -> int:
        return self._process.pid

    def port(self, door: str = OPEN) -> int:
        return self._process.ports[door]

    def url(self, path: str, door: str = OPEN, *, host: str = HERE) -> str:
        return f"{'https' if door in SPEAKS_TLS else 'http'}://{host}:{self.port(door)}{path}"

    def requests(self) -> list[Request]:
        return self._process.ask("requests", list[Request])

    def connections(self) -> Connections:
        return self._process.ask("connections", Connections)

    def forget(self) -> None:
        """Everything that was asked; whoever is still connected is cut off."""
        self._process.ask("forget", type(None))
