"""What users' calendars are planned from, beside users and event types."""
