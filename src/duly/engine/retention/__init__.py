"""What workers delete: finished events, and keys that are no longer remembered."""
