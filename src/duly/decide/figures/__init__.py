"""Decisions about figures: how durations are counted, and how counts of runs are added up."""
