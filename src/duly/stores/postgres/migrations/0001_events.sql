-- Everything lives in a schema of its own, beside the tables of the application. Names are compared as bytes
-- (COLLATE "C"): a language's order would cost the indexes several times as much and give nothing.
CREATE TABLE duly.events (
    id              uuid PRIMARY KEY,
    tenant          text COLLATE "C" NOT NULL,
    type            text COLLATE "C" NOT NULL,
    lane            text COLLATE "C" NOT NULL,
    status          text NOT NULL DEFAULT 'PENDING'
                    CHECK (status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED', 'SKIPPED')),
    due             timestamptz NOT NULL,
    ready           timestamptz,                    -- empty once ended, or while held
    version         integer NOT NULL DEFAULT 1,     -- counts claims
    attempts        integer NOT NULL DEFAULT 0,     -- settled attempts
    unsettled       smallint NOT NULL DEFAULT 0,    -- claims that were neither settled nor given back (yet)
    stands_for      integer NOT NULL DEFAULT 1,
    payload         json NOT NULL,
    target          json,
    retry           json,
    key             text COLLATE "C",
    correlation_id  text,
    series          text COLLATE "C",
    occurrence      text COLLATE "C",
    head            boolean NOT NULL DEFAULT false,
    held            text,                           -- why it waits, while ready is empty
    last_error      text,
    created         timestamptz NOT NULL,
    claimed         timestamptz,
    executed        timestamptz,
    worker          text,
    CONSTRAINT no_trap CHECK (status NOT IN ('PENDING', 'PROCESSING') OR ready IS NOT NULL OR held IS NOT NULL)
);

-- The claim's index: what was never claimed, or was settled and will be retried.
CREATE INDEX events_fresh ON duly.events (lane, ready) WHERE unsettled = 0 AND ready IS NOT NULL;

-- Claimed events, in the order their leases end; what is found here in the past was interrupted.
CREATE INDEX events_leased ON duly.events (lane, ready) WHERE unsettled > 0 AND ready IS NOT NULL;

-- A cancelled timer frees its key.
CREATE UNIQUE INDEX events_key ON duly.events (tenant, key) WHERE key IS NOT NULL AND status <> 'CANCELLED';

CREATE UNIQUE INDEX events_occurrence ON duly.events (series, occurrence) WHERE series IS NOT NULL;
CREATE UNIQUE INDEX events_head ON duly.events (series) WHERE head;
CREATE INDEX events_failed ON duly.events (tenant, id) WHERE status = 'FAILED';

CREATE TABLE duly.schedules (
    id          uuid PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    type        text COLLATE "C" NOT NULL,
    rule        json NOT NULL,
    payload     json NOT NULL,
    target      json,
    retry       json,
    enabled     boolean NOT NULL DEFAULT true,
    halted      text,                               -- why no head follows: ended, paused, or an error
    created     timestamptz NOT NULL,
    updated     timestamptz NOT NULL,
    UNIQUE (tenant, name)
);

-- One row for every attempt, interruption and human act, written with the state that it tells of.
CREATE TABLE duly.history (
    subject     uuid NOT NULL,                      -- an event or a schedule
    id          bigint GENERATED ALWAYS AS IDENTITY,
    at          timestamptz NOT NULL,
    act         text NOT NULL,
    worker      text,                               -- or the person
    version     integer,
    attempt     integer,
    claimed     timestamptz,
    detail      text,
    PRIMARY KEY (subject, id)
);
