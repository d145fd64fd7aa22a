"""``duly schedules``."""
