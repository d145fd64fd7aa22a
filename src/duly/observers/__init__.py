"""Who hears of what happened, after it has."""
