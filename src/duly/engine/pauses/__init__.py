"""Pauses of schedules that end by themselves."""
