"""``client.workers``: who is at work, as far as the key may know."""

import builtins
from typing import Any

import msgspec

from duly.client.protocol.connection import place
from duly.client.protocol.group import Group
from duly.errors import Forbidden
from duly.records.wire.answers import AT_WORK
from duly.records.workers.worker import LANE_JSON, WORKER_JSON, LaneInfo, WorkerInfo

DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AT_WORK)


class Workers(Group):
    """The verbs of ``duly.workers``."""

    async def list(self) -> builtins.list[WorkerInfo]:
        """The workers that are at work, and those that vanished within a day."""
        told = await self._connection.ask("GET", place("workers"), reads=DECODER)
        if told.workers is None:
            raise Forbidden(
                "only a key for all tenants sees workers and their hosts: create one with `duly keys create NAME "
                "--all-tenants`, or call workers.lanes()"
            )
        return [WORKER_JSON.read(one) for one in told.workers]

    async def lanes(self, *, tenant: str | None = None) -> builtins.list[LaneInfo]:
        """The lanes of the tenant's open events. Tells of each whether a worker serves it, and when one was last
        seen."""
        self._check(tenant)
        told = await self._connection.ask("GET", place("workers"), reads=DECODER)
        return [LANE_JSON.read(one) for one in told.lanes]
