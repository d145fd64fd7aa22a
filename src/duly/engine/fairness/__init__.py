"""Which tenant is next in a backlog, and how many events to claim. Skip this while workers keep up with all due
events."""
