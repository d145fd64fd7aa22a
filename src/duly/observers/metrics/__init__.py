"""Metrics for Prometheus: of events, of the store, and of HTTP requests."""
