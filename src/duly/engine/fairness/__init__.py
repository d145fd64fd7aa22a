"""Who is next in a backlog, and how much to claim. Skip this while a worker can take all that is due."""
