-- Where events go, beside Python handlers.
ALTER TABLE events ADD COLUMN destination text;      -- the target's name, or the origin of its URL

-- What waits for a destination that is parked.
CREATE INDEX events_parked ON events (tenant, destination, due) WHERE held IS NOT NULL AND destination IS NOT NULL;

-- Targets under a name, so that an address or a secret changes in one place.
CREATE TABLE targets (
    id          text PRIMARY KEY,
    tenant      text NOT NULL,
    name        text NOT NULL,
    channel     text NOT NULL,
    spec        text NOT NULL,                       -- what may be seen: the URL, the format, the names of headers
    sealed      text,                                -- what may not: secrets and the values of headers, encrypted
    created     integer NOT NULL,
    updated     integer NOT NULL,
    UNIQUE (tenant, name)
) STRICT;

-- What is known of destinations: how much they are to be given, and whether they are parked. The empty one stands for
-- all of a tenant's.
CREATE TABLE destinations (
    tenant      text NOT NULL,
    destination text NOT NULL,
    concurrency integer,                             -- how many at once, for each worker
    rate        real,                                -- how many a second, for all workers together
    spent_until integer,                             -- how far its rate is used up
    parked      text,                                -- why nothing is sent; empty again, while
    since       integer,                             --   what has waited since then is released
    probe_at    integer,                             -- when to try again; empty: when a person says so
    probes      integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, destination)
) STRICT;
CREATE INDEX destinations_parked ON destinations (since) WHERE since IS NOT NULL;

-- Dead letters in the order of their ids, whosever they are.
CREATE INDEX events_dead ON events (id) WHERE status = 'FAILED';
