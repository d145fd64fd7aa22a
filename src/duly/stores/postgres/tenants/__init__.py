"""Requests of the API: each runs as a role that sees the rows of one tenant only (row-level security)."""
