"""``duly doctor``: checks, each with what was found and what to do."""
