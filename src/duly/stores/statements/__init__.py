"""The calls of the ports as named queries with their parameters, one file per noun; ``statements.py`` joins them."""
