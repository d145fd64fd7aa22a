-- A head carries its successor, so that the claim can plant it without asking the rule. (NOT VALID: no row is read for it.)
ALTER TABLE duly.events ADD COLUMN next_state text;
ALTER TABLE duly.events ADD COLUMN next_occurrence text COLLATE "C";
ALTER TABLE duly.events ADD COLUMN next_scheduled timestamptz;
ALTER TABLE duly.events ADD COLUMN next_due timestamptz;
ALTER TABLE duly.events ADD COLUMN next_data text COLLATE "C";   -- the editions of the zone data and holidays behind it
ALTER TABLE duly.events ADD COLUMN ordinary_until timestamptz;   -- before this instant, the head fires as it is
ALTER TABLE duly.events ADD CONSTRAINT next_state CHECK (next_state IN ('known', 'careful', 'planted')) NOT VALID;
ALTER TABLE duly.events ADD CONSTRAINT known_successor CHECK (
    next_state <> 'known' OR (next_occurrence IS NOT NULL AND next_scheduled IS NOT NULL AND next_due IS NOT NULL
                              AND next_data IS NOT NULL AND ordinary_until IS NOT NULL)) NOT VALID;

-- The claim's index: events that were never claimed, or were settled and will be retried; heads and others alike.
CREATE INDEX events_ready ON duly.events (lane, ready) WHERE unsettled = 0 AND ready IS NOT NULL;
DROP INDEX duly.events_fresh;
DROP INDEX duly.events_heads;

-- How the ids begin that are made now, as those of Duly's processes do: 48 bits of milliseconds, the version, and 12 bits
-- of the fraction of a millisecond. 62 random bits follow.
CREATE FUNCTION duly.id_begins() RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT overlay(lpad(to_hex(micros / 1000), 12, '0') PLACING '-' FROM 9 FOR 0) || '-7'
           || lpad(to_hex(micros % 1000 * 4096 / 1000), 3, '0') || '-'
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros) AS now
$$;

-- What somebody else changes is decided about when it is due: a head that was moved, or whose rule was changed, by hand or
-- by a process of the version before.
CREATE FUNCTION duly.doubt_successor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.next_state := 'careful';
    RETURN NEW;
END
$$;
CREATE TRIGGER doubt_successor BEFORE UPDATE OF due, occurrence, scheduled, rule, timezone ON duly.events FOR EACH ROW
WHEN (NEW.head AND NEW.next_state IS NOT DISTINCT FROM OLD.next_state AND NEW.next_due IS NOT DISTINCT FROM OLD.next_due
      AND (NEW.due, NEW.occurrence, NEW.scheduled, NEW.rule::text, NEW.timezone)
          IS DISTINCT FROM (OLD.due, OLD.occurrence, OLD.scheduled, OLD.rule::text, OLD.timezone))
EXECUTE FUNCTION duly.doubt_successor();

CREATE FUNCTION duly.doubt_successor_of() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE duly.events SET next_state = 'careful' WHERE series = 'schedule:' || OLD.id AND head;
    RETURN NULL;
END
$$;
CREATE TRIGGER doubt_successor AFTER UPDATE OF rule, timezone, policies, earlier, enabled ON duly.schedules FOR EACH ROW
WHEN ((NEW.rule::text, NEW.timezone, NEW.policies::text, NEW.earlier::text, NEW.enabled)
      IS DISTINCT FROM (OLD.rule::text, OLD.timezone, OLD.policies::text, OLD.earlier::text, OLD.enabled))
EXECUTE FUNCTION duly.doubt_successor_of();
CREATE TRIGGER doubt_successor_of_deleted AFTER DELETE ON duly.schedules FOR EACH ROW EXECUTE FUNCTION duly.doubt_successor_of();
