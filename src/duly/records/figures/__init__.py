"""Figures about events: how many, and when."""
