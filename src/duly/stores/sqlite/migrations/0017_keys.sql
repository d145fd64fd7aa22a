-- The key that an event had until a later event took it. The column `key` has the open event of a key, or else the one that
-- has fired: so its unique index decides, however many put the same key at once.
ALTER TABLE events ADD COLUMN freed_key text;
CREATE INDEX events_freed_key ON events (tenant, freed_key, id) WHERE freed_key IS NOT NULL;

-- A debounced timer is due so long after the last call, and at most so long after the first.
ALTER TABLE events ADD COLUMN quiet integer;
ALTER TABLE events ADD COLUMN max_wait integer;
ALTER TABLE events ADD COLUMN first_asked integer;

-- Keys whose fired events were deleted, for as long as they are remembered.
CREATE TABLE fired_keys (
    tenant      text NOT NULL,
    key         text NOT NULL,
    id          text NOT NULL,                      -- of the event
    type        text NOT NULL,
    due         integer NOT NULL,
    executed    integer,
    status      text NOT NULL CHECK (status IN ('COMPLETED', 'FAILED', 'SKIPPED')),
    fired       integer NOT NULL,                   -- when the event ended
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX fired_keys_fired ON fired_keys (fired);
