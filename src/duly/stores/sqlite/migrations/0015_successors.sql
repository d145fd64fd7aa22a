-- A head carries its successor, so that the claim can plant it without asking the rule.
-- (`IS NULL OR`: nearly every event has no state, and an IN alone would cost each new event 0.5 µs.)
ALTER TABLE events ADD COLUMN next_state text
    CHECK (next_state IS NULL OR next_state IN ('known', 'careful', 'planting', 'planted'));
ALTER TABLE events ADD COLUMN next_occurrence text;
ALTER TABLE events ADD COLUMN next_scheduled integer;
ALTER TABLE events ADD COLUMN next_due integer;
ALTER TABLE events ADD COLUMN next_data text;          -- the editions of the zone data and holidays behind it
ALTER TABLE events ADD COLUMN ordinary_until integer;  -- before this instant, the head fires as it is

-- The claim's index: events that were never claimed, or were settled and will be retried; heads and others alike.
CREATE INDEX events_ready ON events (lane, ready) WHERE unsettled = 0 AND ready IS NOT NULL;
DROP INDEX events_fresh;
DROP INDEX events_heads;

-- Heads whose successors the statement under way inserts; empty otherwise.
CREATE INDEX events_planting ON events (next_state) WHERE next_state = 'planting';

-- What somebody else changes is decided about when it is due: a head that was moved, or whose rule was changed, by hand or
-- by a process of the version before.
CREATE TRIGGER doubt_successor AFTER UPDATE OF due, occurrence, scheduled, rule, timezone ON events
WHEN new.head AND new.next_state IS old.next_state AND new.next_due IS old.next_due
     AND (new.due, new.occurrence, new.scheduled, new.rule, new.timezone)
         IS NOT (old.due, old.occurrence, old.scheduled, old.rule, old.timezone)
BEGIN
    UPDATE events SET next_state = 'careful' WHERE id = new.id;
END;
CREATE TRIGGER doubt_successor_of AFTER UPDATE OF rule, timezone, policies, earlier, enabled ON schedules
WHEN (new.rule, new.timezone, new.policies, new.earlier, new.enabled)
     IS NOT (old.rule, old.timezone, old.policies, old.earlier, old.enabled)
BEGIN
    UPDATE events SET next_state = 'careful' WHERE series = 'schedule:' || new.id AND head;
END;
CREATE TRIGGER doubt_successor_of_deleted AFTER DELETE ON schedules BEGIN
    UPDATE events SET next_state = 'careful' WHERE series = 'schedule:' || old.id AND head;
END;
