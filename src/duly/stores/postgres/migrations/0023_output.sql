-- What a command has written, the end of it, beside the attempt: in the journal, or in the event's own row if the attempt
-- completed it.
ALTER TABLE duly.journal ADD COLUMN output text;
ALTER TABLE duly.events ADD COLUMN output text;

-- (Replacing a view resets its options, and keeps who may read it.)
CREATE OR REPLACE VIEW duly.history AS
SELECT subject, id, at, act, worker, version, attempt, claimed, detail, output FROM duly.journal
UNION ALL
SELECT id, NULL, settled, 'delivered', worker, version, attempts, claimed, NULL, output FROM duly.events
WHERE settled IS NOT NULL;
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 150000 THEN
        ALTER VIEW duly.history SET (security_invoker = true);
    END IF;
END
$$;
