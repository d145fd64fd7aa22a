"""The command ``duly``, and ``python -m duly``. ``--version`` is answered here: the command line loads asyncio, the
stores and its own libraries, which takes some tenths of a second."""

import sys

from duly import __version__


def main() -> int:
    """Runs the command on the command line; returns its exit code."""
    if sys.argv[1:] == ["--version"]:
        print(__version__)
        return 0
    from duly.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
