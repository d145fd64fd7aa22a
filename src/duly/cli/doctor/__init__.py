"""``duly doctor``: checks, each with a finding and what to do."""
