"""Imports of schedules: from crontabs, and from other schedulers."""
