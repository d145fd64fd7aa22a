-- A completed event is never changed again, so it is itself the history's row of the attempt that completed it: nearly
-- every event then costs one write less. The journal has all other rows, and the view `history` has both.
ALTER TABLE events ADD COLUMN settled integer;  -- when it was completed

UPDATE events SET settled = h.at FROM history AS h
WHERE h.subject = events.id AND h.act = 'delivered' AND events.status = 'COMPLETED';
DELETE FROM history WHERE act = 'delivered';

ALTER TABLE history RENAME TO journal;
DROP INDEX history_subject;
CREATE INDEX journal_subject ON journal (subject, id);

CREATE VIEW history AS
SELECT subject, id, at, act, worker, version, attempt, claimed, detail FROM journal
UNION ALL
SELECT id, NULL, settled, 'delivered', worker, version, attempts, claimed, NULL FROM events
WHERE settled IS NOT NULL;

-- Heads have an index of their own: claiming one plans its successor in the same transaction, and all else is claimed
-- by one statement.
DROP INDEX events_fresh;
CREATE INDEX events_fresh ON events (lane, ready) WHERE unsettled = 0 AND NOT head AND ready IS NOT NULL;
CREATE INDEX events_heads ON events (lane, ready) WHERE head AND ready IS NOT NULL;
