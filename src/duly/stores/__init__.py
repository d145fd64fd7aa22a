"""Where events are kept. One set of named queries for each dialect, one Python reading of them."""
