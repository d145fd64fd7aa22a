"""``duly forecast``: how many events become due, and when."""
