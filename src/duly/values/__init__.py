"""Values that people write, with one reader and writer each: instants, durations, spans as options, whole numbers."""
