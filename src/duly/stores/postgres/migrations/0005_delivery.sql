-- Where events go, beside Python handlers.
ALTER TABLE duly.events ADD COLUMN destination text COLLATE "C";  -- the target's name, or the origin of its URL

-- What waits for a destination that is parked.
CREATE INDEX events_parked ON duly.events (tenant, destination, due) WHERE held IS NOT NULL AND destination IS NOT NULL;

-- Targets under a name, so that an address or a secret changes in one place.
CREATE TABLE duly.targets (
    id          uuid PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    channel     text NOT NULL,
    spec        json NOT NULL,                      -- what may be seen: the URL, the format, the names of headers
    sealed      text,                               -- what may not: secrets and the values of headers, encrypted
    created     timestamptz NOT NULL,
    updated     timestamptz NOT NULL,
    UNIQUE (tenant, name)
);

-- What is known of destinations: how much they are to be given, and whether they are parked. The empty one stands for
-- all of a tenant's.
CREATE TABLE duly.destinations (
    tenant      text COLLATE "C" NOT NULL,
    destination text COLLATE "C" NOT NULL,
    concurrency integer,                            -- how many at once, for each worker
    rate        double precision,                   -- how many a second, for all workers together
    spent_until timestamptz,                        -- how far its rate is used up
    parked      text,                               -- why nothing is sent; empty again, while
    since       timestamptz,                        --   what has waited since then is released
    probe_at    timestamptz,                        -- when to try again; empty: when a person says so
    probes      integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, destination)
);
CREATE INDEX destinations_parked ON duly.destinations (since) WHERE since IS NOT NULL;

-- Dead letters in the order of their ids, whosever they are.
CREATE INDEX events_dead ON duly.events (id) WHERE status = 'FAILED';
