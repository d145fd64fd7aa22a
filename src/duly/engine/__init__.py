"""The path of an event. Read in this order: schedule, claim, deliver, settle, and worker, which is the loop over them.

On an ordinary day no other module decides anything. The other modules here serve the loop: pool (runs claimed events),
leases (renews leases), sleep (time until the next claim), tally (figures of a pass), store_backoff (waits while the
database is unavailable), clock_steps and boot_clock (changes of the system clock), preload (imports the libraries of
channels), rule_threads (evaluates rules outside the event loop).

Subpackages: series (successors of heads), fairness, destinations, lookahead. The first line of each says when to skip
it.
"""
