"""A process of a peer that is being measured: ``python -m benchmarks.peers PEER add|work URL drain|on-time``."""

import sys

from benchmarks.gate import Gate, orders
from benchmarks.peers import find


def main() -> None:
    name, role, url, mode = sys.argv[1:]
    peer = find(name)
    if role == "add":
        peer.add(url, orders())
    else:
        on_time = mode == "on-time"
        peer.work(url, Gate(on_time), on_time)


if __name__ == "__main__":
    main()
