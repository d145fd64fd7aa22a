"""The command that deletes finished events."""
