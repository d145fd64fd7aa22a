"""Schedules over HTTP: acts, previews, and why one did not run."""
