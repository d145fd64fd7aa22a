-- What a command has written, the end of it, beside the attempt: in the journal, or in the event's own row if the attempt
-- completed it.
ALTER TABLE journal ADD COLUMN output text;
ALTER TABLE events ADD COLUMN output text;

DROP VIEW history;
CREATE VIEW history AS
SELECT subject, id, at, act, worker, version, attempt, claimed, detail, output FROM journal
UNION ALL
SELECT id, NULL, settled, 'delivered', worker, version, attempts, claimed, NULL, output FROM events
WHERE settled IS NOT NULL;
