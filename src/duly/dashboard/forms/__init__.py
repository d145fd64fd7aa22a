"""Forms with more than a few fields: how they are read, and written."""
