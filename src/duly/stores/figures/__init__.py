"""Statements that count events by time."""
