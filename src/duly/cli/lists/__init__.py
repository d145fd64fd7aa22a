"""What lists have in common: how many match, and all of them as CSV or as lines of JSON."""
