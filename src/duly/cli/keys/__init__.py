"""``duly keys``."""
