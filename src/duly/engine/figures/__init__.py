"""Roll-ups of runs, kept by workers beside the path."""
