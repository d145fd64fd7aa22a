"""``duly targets``."""
