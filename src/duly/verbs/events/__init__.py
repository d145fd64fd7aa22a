"""The verbs of events, and the acts on many dead letters."""
