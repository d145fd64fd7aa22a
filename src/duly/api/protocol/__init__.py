"""The steps that every request passes: authentication, limits, bodies, conditions, problems. Start with ``handler``."""
