-- Heads that the claim under way has taken, and whose successors it inserts; empty otherwise. So the claim itself writes no
-- column that only heads need.
CREATE INDEX events_claimed_heads ON events (unsettled) WHERE head AND unsettled > 0;
