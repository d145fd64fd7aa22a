"""What a search has found beside the records: how many match, and in which order they are listed."""
