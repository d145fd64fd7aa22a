"""Delivery by calling a Python function."""
