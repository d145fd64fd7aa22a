"""Filters as SQL: specs of events and attributes of users, for both dialects."""
