"""Series: schedules and users' calendar events, their heads, and held events. Skip this for one-shot timers."""
