"""Imports of schedules from other schedulers."""
