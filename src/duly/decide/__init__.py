"""Pure decisions: no I/O, no clock and no randomness. Callers pass in everything that a decision needs."""
