"""Real brokers for tests and benchmarks, each in a temporary folder and on a free port of its own.

with NatsServer() as server:
    server.url
    server.kill()     # an outage
    server.start()    # its end: the same data, the same url
"""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.servers import _free_port, _watch

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream {{ store_dir: {folder}, sync_interval: {sync} }}
"""


class NatsServer:
    """With JetStream. *durable*: what it has acknowledged survives the loss of the machine as well. A watcher ends it
    when the process that made it dies, even by SIGKILL."""

    def __init__(self, *, durable: bool = False, jetstream: bool = True, more: str = "") -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nats-"))
        self._watcher = _watch(self._folder)
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
        self._tell_watcher(str(self._process.pid))
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
            self._tell_watcher("")

    def freeze(self) -> None:
        """It answers nobody any more, and keeps its connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self._watcher.communicate()  # closes the pipe: the watcher removes the folder

    def _tell_watcher(self, pid: str) -> None:
        assert self._watcher.stdin
        self._watcher.stdin.write(f"{pid}\n")
        self._watcher.stdin.flush()


def _answers(port: int) -> bool:
    """A NATS server speaks first."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.settimeout(1)
        return connection.recv(4) == b"INFO"
    return False
