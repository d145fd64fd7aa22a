"""Reads the jobs of other schedulers, and asks those schedulers when their jobs run. Nothing here writes to a store."""
