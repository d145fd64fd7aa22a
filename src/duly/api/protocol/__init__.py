"""What every request passes: authentication, limits, bodies, conditions, problems. ``handler`` is the path of one."""
