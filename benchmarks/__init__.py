"""Measures rates, lateness and cost. ``make bench`` runs all benchmarks; ``docs/benchmarks.md`` explains them."""
