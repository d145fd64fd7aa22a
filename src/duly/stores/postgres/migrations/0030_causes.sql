-- Why occurrences do not fire, as a kind: programs go by it, the sentence beside it is for people. An entry about several
-- occurrences says from which to which. Entries from before, and those of processes of the version before, do not say it.
-- (NOT VALID: no row is read for it.)
ALTER TABLE duly.journal ADD COLUMN cause text, ADD COLUMN first timestamptz, ADD COLUMN last timestamptz;
ALTER TABLE duly.journal ADD CONSTRAINT cause CHECK (cause IN (
    'misfire', 'overlap', 'dependency', 'shadow', 'paused', 'edited', 'moved', 'by_hand', 'expired')) NOT VALID;

-- (Replacing a view resets its options, and keeps who may read it.)
CREATE OR REPLACE VIEW duly.history AS
SELECT subject, id, at, act, worker, version, attempt, claimed, detail, output, cause, first, last FROM duly.journal
UNION ALL
SELECT id, NULL, settled, 'delivered', worker, version, attempts, claimed, NULL, output, NULL, NULL, NULL FROM duly.events
WHERE settled IS NOT NULL;
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 150000 THEN
        ALTER VIEW duly.history SET (security_invoker = true);
    END IF;
END
$$;
