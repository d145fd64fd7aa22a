"""The stores of events: one set of named queries for each dialect, and one Python implementation that runs them."""
