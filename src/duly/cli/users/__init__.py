"""``duly users``."""
