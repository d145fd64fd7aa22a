"""The rows of the store: event, schedule, user, target, API key and history entry, and the specs and filters that
select them."""
