"""Acts of the dashboard: a form, what it would change, the same as a command and as a request, and a receipt."""
