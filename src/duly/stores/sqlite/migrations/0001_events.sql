-- Instants are whole microseconds since 1970 in UTC, so that order is time order.
CREATE TABLE events (
    id              text PRIMARY KEY,
    tenant          text NOT NULL,
    type            text NOT NULL,
    lane            text NOT NULL,
    status          text NOT NULL DEFAULT 'PENDING'
                    CHECK (status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED', 'SKIPPED')),
    due             integer NOT NULL,
    ready           integer,                        -- empty once ended, or while held
    version         integer NOT NULL DEFAULT 1,     -- counts claims
    attempts        integer NOT NULL DEFAULT 0,     -- settled attempts
    unsettled       integer NOT NULL DEFAULT 0,     -- claims that were neither settled nor given back (yet)
    stands_for      integer NOT NULL DEFAULT 1,
    payload         text NOT NULL,
    target          text,
    retry           text,
    key             text,
    correlation_id  text,
    series          text,
    occurrence      text,
    head            integer NOT NULL DEFAULT 0,
    held            text,                           -- why it waits, while ready is empty
    last_error      text,
    created         integer NOT NULL,
    claimed         integer,
    executed        integer,
    worker          text,
    CHECK (status NOT IN ('PENDING', 'PROCESSING') OR ready IS NOT NULL OR held IS NOT NULL)
) STRICT;

-- The claim's index: what was never claimed, or was settled and will be retried.
CREATE INDEX events_fresh ON events (lane, ready) WHERE unsettled = 0 AND ready IS NOT NULL;

-- Claimed events, in the order their leases end; what is found here in the past was interrupted.
CREATE INDEX events_leased ON events (lane, ready) WHERE unsettled > 0 AND ready IS NOT NULL;

-- A cancelled timer frees its key.
CREATE UNIQUE INDEX events_key ON events (tenant, key) WHERE key IS NOT NULL AND status <> 'CANCELLED';

CREATE UNIQUE INDEX events_occurrence ON events (series, occurrence) WHERE series IS NOT NULL;
CREATE UNIQUE INDEX events_head ON events (series) WHERE head;
CREATE INDEX events_failed ON events (tenant, id) WHERE status = 'FAILED';

CREATE TABLE schedules (
    id          text PRIMARY KEY,
    tenant      text NOT NULL,
    name        text NOT NULL,
    type        text NOT NULL,
    rule        text NOT NULL,
    payload     text NOT NULL,
    target      text,
    retry       text,
    enabled     integer NOT NULL DEFAULT 1,
    halted      text,                               -- why no head follows: ended, paused, or an error
    created     integer NOT NULL,
    updated     integer NOT NULL,
    UNIQUE (tenant, name)
) STRICT;

-- One row for every attempt, interruption and human act, written with the state that it tells of.
CREATE TABLE history (
    id          integer PRIMARY KEY,
    subject     text NOT NULL,                      -- an event or a schedule
    at          integer NOT NULL,
    act         text NOT NULL,
    worker      text,                               -- or the person
    version     integer,
    attempt     integer,
    claimed     integer,
    detail      text
) STRICT;

CREATE INDEX history_subject ON history (subject, id);
