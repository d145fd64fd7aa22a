"""Whom deliveries are sent to in tests: `Healthy`, who is quick and counts."""
