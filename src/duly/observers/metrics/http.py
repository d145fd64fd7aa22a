"""Prometheus metrics of HTTP requests. No label contains a tenant, a key or a person."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class HttpMetrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests: Any = Counter("duly_http_requests", "Answered HTTP requests", labels, registry=self.registry)
        self._seconds: Any = Histogram(
            "duly_http_request_seconds",
            "Duration of HTTP requests",
            ("method", "route"),
            buckets=BUCKETS,
            registry=self.registry,
        )

    def request_answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts an answered request. *route* is a pattern such as /v1/events/{id}, or ``-`` if none matched."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).observe(seconds)

    def written(self) -> bytes:
        return generate_latest(self.registry)
