"""``Client(…).sync``: the same calls for synchronous code."""

import builtins
from typing import TYPE_CHECKING, Any, NoReturn

from duly.records.answers import KnownType
from duly.sync import Sync

if TYPE_CHECKING:
    from duly.client.client import Client


class SyncClient(Sync):
    """What ``duly.sync`` has, and what only a client does."""

    def __init__(self, client: "Client") -> None:
        super().__init__(client)
        self._client = client
        self.event_types = SyncEventTypes(self, client)

    # -- not over HTTP, as the client itself says

    def on(self, *_: Any, **__: Any) -> NoReturn:
        self._client.on()

    def schedule(self, *_: Any, **__: Any) -> NoReturn:
        self._client.schedule()

    def observe(self, *_: Any, **__: Any) -> NoReturn:
        self._client.observe()

    def run(self, *_: Any, **__: Any) -> NoReturn:
        self._client.run()

    def stop(self) -> NoReturn:
        self._client.stop()


class SyncEventTypes:
    def __init__(self, sync: Sync, client: "Client") -> None:
        self._sync, self._client = sync, client

    def list(self) -> builtins.list[KnownType]:
        return self._sync.wait_for(self._client.event_types.list())

    def register(self, type: Any) -> NoReturn:
        self._client.event_types.register(type)
