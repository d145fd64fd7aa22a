"""Series: schedules and users' calendar events, their heads, and what is held. Skip this for one-shot timers."""
