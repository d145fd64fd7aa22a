-- A pause has a note, may end by itself, and says what becomes of the occurrences whose time comes during it.
ALTER TABLE schedules ADD COLUMN paused_until integer;
ALTER TABLE schedules ADD COLUMN pause_reason text;
ALTER TABLE schedules ADD COLUMN pause_passed text CHECK (pause_passed IN ('skip', 'fire'));

-- The next pause to end. Only schedules with such a pause are in it.
CREATE INDEX schedules_paused_until ON schedules (paused_until) WHERE NOT enabled AND paused_until IS NOT NULL;

-- A process of an earlier version, or a statement by hand, may enable a schedule without knowing of these columns: a later
-- pause must not end when the one before it would have.
CREATE TRIGGER forget_pause AFTER UPDATE OF enabled ON schedules
WHEN new.enabled AND (new.paused_until IS NOT NULL OR new.pause_reason IS NOT NULL OR new.pause_passed IS NOT NULL) BEGIN
    UPDATE schedules SET paused_until = NULL, pause_reason = NULL, pause_passed = NULL WHERE id = new.id;
END;
