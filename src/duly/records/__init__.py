"""What a row is: event, schedule, user, target, API key, history entry, and the questions about them."""
