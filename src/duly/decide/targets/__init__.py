"""Decisions about targets: their syntax, the addresses that are allowed, and the format of secrets."""
