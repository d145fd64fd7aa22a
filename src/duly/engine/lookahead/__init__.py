"""Events that start at their very millisecond. Skip this unless DULY_LOOKAHEAD is set."""
