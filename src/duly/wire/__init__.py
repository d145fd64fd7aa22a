"""Timers and schedules that are asked for as JSON, read with all that is wrong with them at once."""
