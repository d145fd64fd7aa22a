-- Why an event waits, and why a schedule has no next event, as kinds: programs go by them, the sentences beside them are for
-- people. (NOT VALID: no row is read for it. Rows from before are empty here, or are written below, which is checked.)
ALTER TABLE duly.events ADD COLUMN hold_kind text;
ALTER TABLE duly.events ADD COLUMN held_for text COLLATE "C";  -- the parked target or URL, for the kind 'target'
ALTER TABLE duly.events ADD CONSTRAINT hold_kind CHECK (hold_kind IN ('paused', 'limit', 'target', 'passed_over')) NOT VALID;
ALTER TABLE duly.schedules ADD COLUMN halt_kind text CHECK (halt_kind IN ('ended', 'paused', 'error'));
ALTER TABLE duly.schedules ADD COLUMN paused_since timestamptz;

-- Which series an entry in a user's history is about, for the act 'halted'. Entries from before do not say it.
ALTER TABLE duly.journal ADD COLUMN series text COLLATE "C";

-- The kinds by the sentences of the version before.
CREATE FUNCTION duly.hold_kind_in(held text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN held = 'paused' THEN 'paused' WHEN held LIKE 'waits for %' THEN 'limit'
                WHEN held LIKE 'target %' THEN 'target' WHEN held = 'passed over' THEN 'passed_over' END
$$;
CREATE FUNCTION duly.held_for_in(held text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN held LIKE 'target %' THEN split_part(held, ' ', 2) END
$$;
CREATE FUNCTION duly.halt_kind_in(halted text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN halted IN ('ended', 'paused') THEN halted WHEN starts_with(halted, 'error: ') THEN 'error' END
$$;

-- Held events are found by their index: no other row is read. A schedule without a pause in its history was created paused.
UPDATE duly.events SET hold_kind = duly.hold_kind_in(held), held_for = duly.held_for_in(held)
WHERE held IS NOT NULL;
UPDATE duly.schedules AS s
SET halt_kind = duly.halt_kind_in(halted),
    halted = CASE WHEN starts_with(halted, 'error: ') THEN substr(halted, 8) ELSE halted END,
    paused_since = CASE WHEN NOT enabled THEN coalesce(
        (SELECT max(at) FROM duly.journal AS j WHERE j.subject = s.id AND j.act = 'paused'), created) END
WHERE halted IS NOT NULL OR NOT enabled;

-- Processes of the version before write sentences alone. While some of them still run, the kinds follow from what they
-- write. (AFTER: before an update, such a trigger would lock each row once more, also for a claim; before an insert, COPY
-- would write its rows one by one. With words that it does not know, a kind stays as it is.)
CREATE FUNCTION duly.add_hold_kind() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE duly.events
    SET hold_kind = CASE WHEN held IS NOT NULL THEN coalesce(duly.hold_kind_in(held), hold_kind) END,
        held_for = duly.held_for_in(held)
    WHERE id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER add_hold_kind AFTER INSERT ON duly.events FOR EACH ROW
WHEN (NEW.held IS NOT NULL AND NEW.hold_kind IS NULL) EXECUTE FUNCTION duly.add_hold_kind();
CREATE TRIGGER change_hold_kind AFTER UPDATE OF held ON duly.events FOR EACH ROW
WHEN (NEW.held IS DISTINCT FROM OLD.held AND NEW.hold_kind IS NOT DISTINCT FROM OLD.hold_kind
      AND NEW.held_for IS NOT DISTINCT FROM OLD.held_for)
EXECUTE FUNCTION duly.add_hold_kind();

CREATE FUNCTION duly.add_halt_kind() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.halt_kind := coalesce(NEW.halt_kind, duly.halt_kind_in(NEW.halted));
        NEW.paused_since := CASE WHEN NOT NEW.enabled THEN coalesce(NEW.paused_since, NEW.created) END;
    ELSE
        IF NEW.halted IS DISTINCT FROM OLD.halted AND NEW.halt_kind IS NOT DISTINCT FROM OLD.halt_kind THEN
            NEW.halt_kind := CASE WHEN NEW.halted IS NOT NULL THEN coalesce(duly.halt_kind_in(NEW.halted), NEW.halt_kind) END;
        END IF;
        IF OLD.enabled AND NOT NEW.enabled AND NEW.paused_since IS NOT DISTINCT FROM OLD.paused_since THEN
            NEW.paused_since := NEW.updated;
        END IF;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER add_halt_kind BEFORE INSERT OR UPDATE OF halted, enabled ON duly.schedules FOR EACH ROW
EXECUTE FUNCTION duly.add_halt_kind();
