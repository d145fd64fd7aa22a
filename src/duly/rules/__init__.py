"""Recurrence, pure: a rule answers "the first occurrence after this instant". It can be used by itself."""
