"""The path of an event. Read in this order: schedule, claim, deliver, settle, and worker, which is the loop over them.

On an ordinary day nothing else decides. Beside the path stands what the loop needs: pool (runs what was claimed),
leases (keep it claimed), sleep (until when), tally (what a pass has done), store_backoff (the database is away),
clock_steps and boot_clock (somebody set the clock), preload (libraries of channels), rule_threads (rules off the loop).

Below: series (what follows a head), fairness, destinations, lookahead. Each says in its first line when to skip it.
"""
