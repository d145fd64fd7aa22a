"""The columns of records in SQL: which of them queries name, how dialects write them, and how rows are read."""
