"""Starts events within a millisecond of their instant. Skip this unless DULY_LOOKAHEAD is set."""
