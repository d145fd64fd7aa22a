"""Figures of the source tree, each beside its target: ``make house`` prints them, so that everybody sees them drift."""
