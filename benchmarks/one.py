"""Runs one workload of one peer and prints the figures as JSON.

python -m benchmarks.one duly drain postgresql://… 50000 2
"""

import importlib
import json
import sys

from benchmarks.peers import Absent, find

WORKLOADS = {
    "insert": "workloads",
    "drain": "workloads",
    "lateness": "workloads",
    "idle": "workloads",
    "memory": "memory",
    "claim": "claims",
    "claimers": "claims",
    "backdrop": "claims",
    "finish_all": "claims",
    "beside_pruning": "prune",
    "come_and_gone": "prune",
    "rules": "rules",
    "changes": "rules",
    "due": "schedules",
    "due_bare": "schedules",
    "catch_up": "schedules",
    "import_users": "users",
    "morning": "users",
    "webhooks": "webhooks",
    "timers": "timers",
    "quiet": "tenants",
    "worst": "worst",
    "reads": "reads",
    "confined": "confined",
    "http_creates": "http",
    "http_reads": "http",
    "http_memory": "http",
}
"""Each workload with its module; only that module is imported."""


def main() -> None:
    name, workload, url, *numbers = sys.argv[1:]
    measure = getattr(importlib.import_module(f"benchmarks.{WORKLOADS[workload]}"), workload)
    try:
        figures = measure(find(name), url, *map(int, numbers))
    except Absent as absent:
        raise SystemExit(str(absent)) from None
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
