"""``python -m duly`` is ``duly``."""

import sys

from duly.edges.cli import main

if __name__ == "__main__":
    sys.exit(main())
