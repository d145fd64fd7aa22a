"""What people do: one file for each noun. Every act is atomic, and has a row in the history."""
