-- A completed event is never changed again, so it is itself the history's row of the attempt that completed it: nearly
-- every event then costs one write less. The journal has all other rows, and the view `history` has both.
ALTER TABLE duly.events ADD COLUMN settled timestamptz;  -- when it was completed

UPDATE duly.events AS e SET settled = h.at
FROM duly.history AS h WHERE h.subject = e.id AND h.act = 'delivered' AND e.status = 'COMPLETED';
DELETE FROM duly.history WHERE act = 'delivered';

ALTER TABLE duly.history RENAME TO journal;
ALTER INDEX duly.history_pkey RENAME TO journal_pkey;

CREATE VIEW duly.history AS
SELECT subject, id, at, act, worker, version, attempt, claimed, detail FROM duly.journal
UNION ALL
SELECT id, NULL, settled, 'delivered', worker, version, attempts, claimed, NULL FROM duly.events
WHERE settled IS NOT NULL;

-- Heads have an index of their own: claiming one plans its successor in the same transaction, and all else is claimed
-- by one statement.
DROP INDEX duly.events_fresh;
CREATE INDEX events_fresh ON duly.events (lane, ready) WHERE unsettled = 0 AND NOT head AND ready IS NOT NULL;
CREATE INDEX events_heads ON duly.events (lane, ready) WHERE head AND ready IS NOT NULL;
