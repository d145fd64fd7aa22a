"""The verbs of schedules and their templates, over HTTP."""
