"""Jobs of APScheduler as it stores them."""

import pickle
from datetime import UTC, datetime
from typing import Any

from apscheduler.triggers.cron import CronTrigger


def row(id: str, state: bytes) -> dict[str, Any]:
    return {"id": id, "size": len(state), "state": state}


def pickled_job(id: str, protocol: int = pickle.HIGHEST_PROTOCOL, **changes: Any) -> bytes:
    """The state of a job as `Job.__getstate__` returns it, with changes, pickled."""
    return pickle.dumps(
        {
            "version": 1,
            "id": id,
            "func": "shop.jobs:report",
            "trigger": CronTrigger(hour=9, timezone="Europe/Brussels"),
            "executor": "default",
            "args": (1,),
            "kwargs": {},
            "name": "report",
            "misfire_grace_time": 1,
            "coalesce": True,
            "max_instances": 1,
            "next_run_time": datetime(2026, 12, 1, 8, tzinfo=UTC),
        }
        | changes,
        protocol,
    )


SHOP = pickled_job("good")
