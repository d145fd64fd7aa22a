"""The statements that find and count events, users and schedules for people."""
