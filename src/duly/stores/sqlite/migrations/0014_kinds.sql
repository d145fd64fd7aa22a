-- Why an event waits, and why a schedule has no next event, as kinds: programs go by them, the sentences beside them are for
-- people.
-- (`IS NULL OR`: nearly every event has no kind, and an IN alone would cost each new event 0.5 µs.)
ALTER TABLE events ADD COLUMN hold_kind text
    CHECK (hold_kind IS NULL OR hold_kind IN ('paused', 'limit', 'target', 'passed_over'));
ALTER TABLE events ADD COLUMN held_for text;  -- the parked target or URL, for the kind 'target'
ALTER TABLE schedules ADD COLUMN halt_kind text CHECK (halt_kind IN ('ended', 'paused', 'error'));
ALTER TABLE schedules ADD COLUMN paused_since integer;

-- Which series an entry in a user's history is about, for the act 'halted'. Entries from before do not say it.
ALTER TABLE journal ADD COLUMN series text;

-- The kinds by the sentences of the version before. Held events are found by their index: no other row is read. A
-- schedule without a pause in its history was created paused.
UPDATE events
SET hold_kind = CASE WHEN held = 'paused' THEN 'paused' WHEN held LIKE 'waits for %' THEN 'limit'
                     WHEN held LIKE 'target %' THEN 'target' WHEN held = 'passed over' THEN 'passed_over' END,
    held_for = CASE WHEN held LIKE 'target %' THEN substr(held, 8, instr(substr(held, 8), ' ') - 1) END
WHERE held IS NOT NULL;
UPDATE schedules
SET halt_kind = CASE WHEN halted IN ('ended', 'paused') THEN halted WHEN halted LIKE 'error: %' THEN 'error' END,
    halted = iif(substr(halted, 1, 7) = 'error: ', substr(halted, 8), halted),
    paused_since = CASE WHEN NOT enabled THEN coalesce(
        (SELECT max(at) FROM journal AS j WHERE j.subject = schedules.id AND j.act = 'paused'), created) END
WHERE halted IS NOT NULL OR NOT enabled;

-- Processes of the version before write sentences alone. While some of them still run, the kinds follow from what they
-- write. (With words that it does not know, a kind stays as it is.)
CREATE TRIGGER add_hold_kind AFTER INSERT ON events WHEN new.held IS NOT NULL AND new.hold_kind IS NULL BEGIN
    UPDATE events
    SET hold_kind = CASE WHEN held = 'paused' THEN 'paused' WHEN held LIKE 'waits for %' THEN 'limit'
                         WHEN held = 'passed over' THEN 'passed_over' END
    WHERE id = new.id;
END;
CREATE TRIGGER change_hold_kind AFTER UPDATE OF held ON events
WHEN new.held IS NOT old.held AND new.hold_kind IS old.hold_kind AND new.held_for IS old.held_for BEGIN
    UPDATE events
    SET hold_kind = CASE WHEN held IS NULL THEN NULL WHEN held = 'paused' THEN 'paused'
                         WHEN held LIKE 'waits for %' THEN 'limit' WHEN held LIKE 'target %' THEN 'target'
                         WHEN held = 'passed over' THEN 'passed_over' ELSE hold_kind END,
        held_for = CASE WHEN held LIKE 'target %' THEN substr(held, 8, instr(substr(held, 8), ' ') - 1) END
    WHERE id = new.id;
END;
CREATE TRIGGER add_halt_kind AFTER INSERT ON schedules WHEN NOT new.enabled AND new.paused_since IS NULL BEGIN
    UPDATE schedules SET paused_since = created WHERE id = new.id;
END;
CREATE TRIGGER change_halt_kind AFTER UPDATE OF halted ON schedules
WHEN new.halted IS NOT old.halted AND new.halt_kind IS old.halt_kind BEGIN
    UPDATE schedules
    SET halt_kind = CASE WHEN halted IS NULL OR halted IN ('ended', 'paused') THEN halted
                         WHEN halted LIKE 'error: %' THEN 'error' ELSE halt_kind END
    WHERE id = new.id;
END;
CREATE TRIGGER change_paused_since AFTER UPDATE OF enabled ON schedules
WHEN old.enabled AND NOT new.enabled AND new.paused_since IS old.paused_since BEGIN
    UPDATE schedules SET paused_since = updated WHERE id = new.id;
END;
