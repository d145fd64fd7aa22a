"""Whom deliveries are sent to in tests: `Hostile`, who breaks every rule, and `Healthy`, who is quick and counts."""
