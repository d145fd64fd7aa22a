"""Users and event types: which events a user has, when, and with which payload."""
