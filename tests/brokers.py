"""Real brokers for tests and benchmarks, each in a temporary folder and on a free port of its own.

    with NatsServer() as server:
        server.url
        server.kill()     # an outage
        server.start()    # its end: the same data, the same url
"""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream {{ store_dir: {folder}, sync_interval: {sync} }}
"""


class NatsServer:
    """With JetStream. *durable*: what it has acknowledged survives the loss of the machine as well."""

    def __init__(self, *, durable: bool = False, jetstream: bool = True, more: str = "") -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nats-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        sync = "always" if durable else "2m"
        written = CONFIGURATION.format(port=self.port, folder=json.dumps(str(self._folder / "data")), sync=sync)
        if not jetstream:
            written = f"listen: 127.0.0.1:{self.port}"
        (self._folder / "configuration").write_text(f"{written}\n{more}\n")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> Path:
        return self._folder / "log"

    def start(self) -> None:
        """Return when it takes connections."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(Path(sys.executable).with_name("nats-server")), "-c", str(self._folder / "configuration")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 30
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"nats-server did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(port: int) -> bool:
    """A NATS server speaks first."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.settimeout(1)
        return connection.recv(4) == b"INFO"
    return False
