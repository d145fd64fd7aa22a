"""``duly demo``."""
