"""Who is at work, and which lanes they serve."""
