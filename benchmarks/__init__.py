"""Measures rates, lateness and cost. ``make bench`` runs everything; ``docs/benchmarks.md`` says how to read it."""
