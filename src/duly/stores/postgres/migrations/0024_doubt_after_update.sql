-- A trigger BEFORE UPDATE locks each row first, whatever is updated and whatever its condition says: one more record of the
-- write-ahead log for each settled event. So doubts about a successor are written after the update.
DROP TRIGGER doubt_successor ON duly.events;
CREATE OR REPLACE FUNCTION duly.doubt_successor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE duly.events SET next_state = 'careful' WHERE id = NEW.id AND head;
    RETURN NULL;
END
$$;
CREATE TRIGGER doubt_successor AFTER UPDATE OF due, occurrence, scheduled, rule, timezone ON duly.events FOR EACH ROW
WHEN (NEW.head AND NEW.next_state IS NOT DISTINCT FROM OLD.next_state AND NEW.next_due IS NOT DISTINCT FROM OLD.next_due
      AND (NEW.due, NEW.occurrence, NEW.scheduled, NEW.rule::text, NEW.timezone)
          IS DISTINCT FROM (OLD.due, OLD.occurrence, OLD.scheduled, OLD.rule::text, OLD.timezone))
EXECUTE FUNCTION duly.doubt_successor();
