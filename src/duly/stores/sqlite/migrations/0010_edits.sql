-- What a schedule went by before its last edits: what is owed by an earlier rule stays owed, and what that has named is not
-- named again.
ALTER TABLE schedules ADD COLUMN earlier text;

-- What was passed over, and whose time is still to come: an edit, or a move, opens it again.
CREATE INDEX events_passed ON events (series, scheduled) WHERE status = 'SKIPPED' AND series IS NOT NULL;
