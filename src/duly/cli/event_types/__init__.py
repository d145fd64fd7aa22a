"""``duly event-types``: the event types of users' calendars, their texts and default targets."""
