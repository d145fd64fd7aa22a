"""``duly templates``: named settings of schedules."""
