-- People, whom calendar events are for.
CREATE TABLE duly.users (
    id              uuid PRIMARY KEY,
    tenant          text COLLATE "C" NOT NULL,
    key             text COLLATE "C",                -- what the caller's own system calls them
    first_name      text NOT NULL,
    last_name       text NOT NULL,
    date_of_birth   date NOT NULL,
    timezone        text COLLATE "C" NOT NULL,
    anniversary     date,
    delivery_time   text,                            -- on their own clocks; empty: as everybody else
    leap            text,                            -- when 29 February is kept in other years
    target          json,
    attributes      json,
    created         timestamptz NOT NULL,
    created_by      text,
    updated         timestamptz NOT NULL
);
CREATE UNIQUE INDEX users_key ON duly.users (key, tenant) WHERE key IS NOT NULL;
CREATE INDEX users_tenant ON duly.users (tenant, id);

-- A user's series has no row of its own: its head carries the rule by which it continues.
ALTER TABLE duly.events ADD COLUMN rule json;
