-- What a schedule went by before its last edits: what is owed by an earlier rule stays owed, and what that has named is not
-- named again.
ALTER TABLE duly.schedules ADD COLUMN earlier json;

-- What was passed over, and whose time is still to come: an edit, or a move, opens it again.
CREATE INDEX events_passed ON duly.events (series, scheduled) WHERE status = 'SKIPPED' AND series IS NOT NULL;
