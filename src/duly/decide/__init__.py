"""Decisions, pure: no I/O, no clock and no luck of their own. Whatever a decision needs, it is given."""
