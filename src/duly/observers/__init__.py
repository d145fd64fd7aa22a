"""Observers of signals: log lines and metrics, written after an act has happened."""
