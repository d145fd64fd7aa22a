"""What decides. No I/O, no clock and no luck of its own: whatever it needs, it is given."""
