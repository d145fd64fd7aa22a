"""The verbs of schedules, of their templates, and what imports of schedules need."""
