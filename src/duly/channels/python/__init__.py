"""Delivery by a call of a Python function."""
