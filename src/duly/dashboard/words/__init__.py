"""Words for rules."""
