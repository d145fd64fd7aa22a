-- Who may call the HTTP API. The key itself is nowhere: only its hash.
CREATE TABLE duly.api_keys (
    id          uuid PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    scope       text NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
    hash        text COLLATE "C" NOT NULL UNIQUE,   -- SHA-256 of the key
    hint        text NOT NULL,                      -- how the key begins, for people
    rate        double precision,                   -- requests a second; empty: as the server allows
    created     timestamptz NOT NULL,
    created_by  text,
    expires     timestamptz,
    revoked     timestamptz,
    last_used   timestamptz
);

-- What was answered to requests that carry a key of their own, for those that come again.
CREATE TABLE duly.requests (
    tenant      text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint text NOT NULL,                      -- of what was asked
    status      integer,                            -- empty until it is answered
    headers     text,
    body        bytea,
    created     timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX requests_created ON duly.requests (created);

-- The second lock. Each request of the API runs under the role duly_api, for which only the rows of one tenant exist: the
-- one in the setting duly.tenant, and none where that is not set. Nobody else is bound.
--
-- Whether the role is that one is known when a statement is planned, and a plan is never used under another role: so this
-- says IMMUTABLE, though it is not. Then nothing at all is left of the policies in everybody else's plans.
--
-- In the API's plans they are a filter, and coalesce() keeps them from being more: a plain `tenant = …` would look like a
-- good way to find the few rows of a tenant where those that are asked for are found by their ids or names.
CREATE FUNCTION duly.confined() RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT current_user OPERATOR(pg_catalog.=) 'duly_api'::pg_catalog.name $$;
GRANT EXECUTE ON FUNCTION duly.confined() TO PUBLIC;

ALTER TABLE duly.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.events
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));

ALTER TABLE duly.schedules ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.schedules
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));

ALTER TABLE duly.users ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.users
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));

ALTER TABLE duly.targets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.targets
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));

ALTER TABLE duly.destinations ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.destinations
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));

ALTER TABLE duly.requests ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.requests
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));

-- The journal has no tenants: its rows are seen by whoever sees what they tell of. (A function, so that the journal does not
-- depend on tables that who only keeps timers may do without.)
CREATE FUNCTION duly.sees(subject uuid) RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM duly.events WHERE id = $1) OR EXISTS (SELECT FROM duly.schedules WHERE id = $1)
        OR EXISTS (SELECT FROM duly.users WHERE id = $1) OR EXISTS (SELECT FROM duly.targets WHERE id = $1);
END
$$;
GRANT EXECUTE ON FUNCTION duly.sees(uuid) TO PUBLIC;

-- And they are written by whoever sees it. (VOLATILE: also what the same statement has just inserted, or has found in
-- another's commit after it began.)
CREATE FUNCTION duly.tells(subject uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN duly.sees($1);
END
$$;
GRANT EXECUTE ON FUNCTION duly.tells(uuid) TO PUBLIC;

ALTER TABLE duly.journal ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.journal FOR SELECT USING (NOT duly.confined() OR duly.sees(subject));
CREATE POLICY own_told ON duly.journal FOR INSERT WITH CHECK (NOT duly.confined() OR duly.tells(subject));
CREATE POLICY nobody_else_changes ON duly.journal FOR UPDATE USING (NOT duly.confined());
CREATE POLICY nobody_else_deletes ON duly.journal FOR DELETE USING (NOT duly.confined());

-- Views look with the rights of whoever asks, and so through the policies. Older servers cannot do that: there, the API
-- refuses to start.
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 150000 THEN
        ALTER VIEW duly.history SET (security_invoker = true);
        ALTER VIEW duly.timer_schedules SET (security_invoker = true);
    END IF;
END
$$;
