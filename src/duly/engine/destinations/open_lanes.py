"""Which lanes a worker serves: those whose brokers can be reached and whose libraries are loaded."""

import contextlib
from collections.abc import Callable, Iterator, Mapping

from duly.engine.destinations.broker_health import BrokerHealth
from duly.engine.destinations.preload import Preload
from duly.engine.fairness.lanes import Lanes
from duly.ports import ClaimPort, Reachable, Route
from duly.signals import Signals


class OpenLanes:
    def __init__(
        self,
        lanes: Lanes,
        routes: Mapping[str, Route],
        store: ClaimPort,
        signals: Signals,
        changed: Callable[[], None],
        *,
        wait_for_libraries: bool,
    ) -> None:
        self._lanes, self._routes, self._changed = lanes, routes, changed
        channels = {lane: route.channel for lane, route in routes.items()}
        brokers = {lane: channel for lane, channel in channels.items() if isinstance(channel, Reachable)}
        self._wait_for_libraries = wait_for_libraries
        self.preload = Preload(routes, store, self._look)
        self._health = BrokerHealth(brokers, signals, self._look)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Within this context, lanes are opened and closed."""
        self._health.begin()
        self._look()
        try:
            yield
        finally:
            self._health.end()

    @property
    def closed(self) -> dict[str, str]:
        """The lanes whose brokers are down, each with the reason."""
        return self._health.down

    def _look(self) -> None:
        loading = self.preload.lanes if self._wait_for_libraries else ()
        open = {lane for lane in self._routes if self._health.is_open(lane) and lane not in loading}
        self._lanes.open_only(open, self._health.on_trial)
        self._changed()
