-- The key that an event had until a later event took it. The column `key` has the open event of a key, or else the one that
-- has fired: so its unique index decides, however many put the same key at once.
ALTER TABLE duly.events ADD COLUMN freed_key text COLLATE "C";
CREATE INDEX events_freed_key ON duly.events (tenant, freed_key, id) WHERE freed_key IS NOT NULL;

-- A debounced timer is due so many microseconds after the last call, and at most so many after the first.
ALTER TABLE duly.events ADD COLUMN quiet bigint;
ALTER TABLE duly.events ADD COLUMN max_wait bigint;
ALTER TABLE duly.events ADD COLUMN first_asked timestamptz;

-- Keys whose fired events were deleted, for as long as they are remembered.
CREATE TABLE duly.fired_keys (
    tenant      text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    id          uuid NOT NULL,                      -- of the event
    type        text COLLATE "C" NOT NULL,
    due         timestamptz NOT NULL,
    executed    timestamptz,
    status      text NOT NULL CHECK (status IN ('COMPLETED', 'FAILED', 'SKIPPED')),
    fired       timestamptz NOT NULL,               -- when the event ended
    PRIMARY KEY (tenant, key)
);
CREATE INDEX fired_keys_fired ON duly.fired_keys (fired);

ALTER TABLE duly.fired_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.fired_keys
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));
