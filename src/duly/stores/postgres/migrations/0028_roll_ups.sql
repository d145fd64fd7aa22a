-- note: workers count runs as they end, from now on; runs that ended before are in no statistics. The roles that could change
-- note: events so far, apart from those of API requests, were given SELECT, INSERT, UPDATE and DELETE on the two new tables,
-- note: duly.ended_runs and duly.roll_ups: workers need them.
-- Runs that ended and are not rolled up yet. The transaction that ends an event writes here too, in one row for all of its
-- events that are alike, and a worker deletes the rows as it adds them up. (No index: a row is never looked for.)
CREATE TABLE duly.ended_runs (
    at          timestamptz NOT NULL,
    tenant      text COLLATE "C" NOT NULL,
    schedule    text COLLATE "C",           -- its id
    type        text COLLATE "C" NOT NULL,
    lane        text COLLATE "C" NOT NULL,
    status      text NOT NULL CHECK (status IN ('COMPLETED', 'FAILED', 'SKIPPED')),
    duration    double precision,           -- seconds from the claim to the end, about; NULL: it never ran
    lateness    double precision,           -- seconds from the due time to the claim
    many        bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1);

-- Runs by hour and by day: those of a schedule, and, where `schedule` is empty, all of a type and lane.
CREATE TABLE duly.roll_ups (
    schedule    text COLLATE "C" NOT NULL,
    tenant      text COLLATE "C" NOT NULL,
    span        text COLLATE "C" NOT NULL CHECK (span IN ('hour', 'day')),
    begins      timestamptz NOT NULL,       -- UTC
    type        text COLLATE "C" NOT NULL,
    lane        text COLLATE "C" NOT NULL,
    completed   bigint NOT NULL,
    failed      bigint NOT NULL,
    skipped     bigint NOT NULL,
    duration    json NOT NULL,              -- how many runs each bucket has
    lateness    json NOT NULL,
    PRIMARY KEY (schedule, tenant, span, begins, type, lane)
) WITH (fillfactor = 80);
CREATE INDEX roll_ups_begins ON duly.roll_ups (span, begins);

-- An end that is not a completion has an entry in the journal, which this reads: it cannot be forgotten. (The statement has
-- ended by then: an event whose attempts are not spent is PENDING. SECURITY DEFINER: a request over HTTP may skip events, and
-- its role may not write here.)
CREATE FUNCTION duly.count_ended_run() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO duly.ended_runs (at, tenant, schedule, type, lane, status, duration, lateness, many)
    SELECT new.at, tenant, CASE WHEN starts_with(series, 'schedule:') THEN substr(series, 10) END, type, lane, status,
           CASE WHEN status = 'FAILED' THEN greatest(date_part('epoch', new.at - new.claimed), 0) END,
           CASE WHEN status = 'FAILED' AND new.claimed IS NOT NULL THEN greatest(date_part('epoch', new.claimed - due), 0) END, 1
    FROM duly.events
    WHERE id = new.subject AND status = CASE WHEN new.act IN ('failed', 'rejected') THEN 'FAILED' ELSE 'SKIPPED' END;
    RETURN NULL;
END
$$;
CREATE TRIGGER count_ended_run AFTER INSERT ON duly.journal
FOR EACH ROW WHEN (new.act IN ('failed', 'rejected', 'skipped', 'shadowed')) EXECUTE FUNCTION duly.count_ended_run();

-- Requests read the figures of their tenant.
ALTER TABLE duly.ended_runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.ended_runs
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));
ALTER TABLE duly.roll_ups ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.roll_ups
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));

-- A login that does not own the tables completes events only if it may count them.
DO $$
DECLARE
    worker regrole;
BEGIN
    FOR worker IN
        SELECT DISTINCT acl.grantee::regrole FROM pg_class AS c, aclexplode(c.relacl) AS acl JOIN pg_roles AS r ON r.oid = acl.grantee
        WHERE c.oid = 'duly.events'::regclass AND acl.privilege_type = 'UPDATE' AND acl.grantee <> c.relowner
          AND r.rolname <> ALL (duly.api_roles())
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON duly.ended_runs, duly.roll_ups TO %s', worker);
    END LOOP;
END
$$;
