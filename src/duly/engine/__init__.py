"""The path of an event. Read in this order: schedule, claim, deliver, settle, and worker, which is the loop over them.

On an ordinary day no other module decides anything. The other modules here serve the loop: executor (takes claimed
events to their settlement), pool (runs them), leases (renews their leases), sleep (time until the next claim), tally
(figures of a pass), upkeep (the loops beside it), stopping and drain (the end of a worker), tick (one pass, then the
end).

Subpackages: series (successors of heads), fairness, destinations, lookahead, faults, figures (roll-ups), retention,
presence. The first line of each says when to skip it.
"""
