"""The verbs that tell figures about events."""
