"""Runs one workload of one contender in this process and prints the result as JSON.

python -m benchmarks.one duly drain postgresql://… 50000
"""

import asyncio
import importlib
import json
import sys


def main() -> None:
    contender, workload, url, *numbers = sys.argv[1:]
    module = importlib.import_module(f"benchmarks.contenders.{contender}")
    print(json.dumps(asyncio.run(getattr(module, workload)(url, *map(int, numbers)))))


if __name__ == "__main__":
    main()
