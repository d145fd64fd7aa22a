-- A pause has a note, may end by itself, and says what becomes of the occurrences whose time comes during it.
ALTER TABLE duly.schedules
    ADD COLUMN paused_until timestamptz,
    ADD COLUMN pause_reason text,
    ADD COLUMN pause_passed text COLLATE "C" CHECK (pause_passed IN ('skip', 'fire'));

-- The next pause to end. Only schedules with such a pause are in it.
CREATE INDEX schedules_paused_until ON duly.schedules (paused_until) WHERE NOT enabled AND paused_until IS NOT NULL;

-- A process of an earlier version, or a statement by hand, may enable a schedule without knowing of these columns: a later
-- pause must not end when the one before it would have.
CREATE FUNCTION duly.forget_pause() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.paused_until := NULL;
    NEW.pause_reason := NULL;
    NEW.pause_passed := NULL;
    RETURN NEW;
END
$$;
CREATE TRIGGER forget_pause BEFORE UPDATE OF enabled ON duly.schedules FOR EACH ROW
WHEN (NEW.enabled AND (NEW.paused_until IS NOT NULL OR NEW.pause_reason IS NOT NULL OR NEW.pause_passed IS NOT NULL))
EXECUTE FUNCTION duly.forget_pause();
