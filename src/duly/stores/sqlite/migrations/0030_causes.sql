-- Why occurrences do not fire, as a kind: programs go by it, the sentence beside it is for people. An entry about several
-- occurrences says from which to which. Entries from before, and those of processes of the version before, do not say it.
ALTER TABLE journal ADD COLUMN cause text CHECK (cause IS NULL OR cause IN (
    'misfire', 'overlap', 'dependency', 'shadow', 'paused', 'edited', 'moved', 'by_hand', 'expired'));
ALTER TABLE journal ADD COLUMN first integer;
ALTER TABLE journal ADD COLUMN last integer;

DROP VIEW history;
CREATE VIEW history AS
SELECT subject, id, at, act, worker, version, attempt, claimed, detail, output, cause, first, last FROM journal
UNION ALL
SELECT id, NULL, settled, 'delivered', worker, version, attempts, claimed, NULL, output, NULL, NULL, NULL FROM events
WHERE settled IS NOT NULL;
