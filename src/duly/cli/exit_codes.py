"""Exit codes of the commands."""

DONE = 0
FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
"""128 and the number of SIGINT, as shells report a command that Ctrl-C ended."""
