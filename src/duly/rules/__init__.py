"""Recurrence as pure functions: a rule returns its first occurrence after an instant. The package can be used alone."""
