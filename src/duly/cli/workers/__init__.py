"""``duly workers`` and ``duly top``: who is at work, and the load."""
