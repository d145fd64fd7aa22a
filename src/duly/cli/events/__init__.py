"""``duly events`` and ``duly at``."""
