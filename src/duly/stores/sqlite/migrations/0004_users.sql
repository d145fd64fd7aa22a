-- People, whom calendar events are for.
CREATE TABLE users (
    id              text PRIMARY KEY,
    tenant          text NOT NULL,
    key             text,                            -- what the caller's own system calls them
    first_name      text NOT NULL,
    last_name       text NOT NULL,
    date_of_birth   text NOT NULL,
    timezone        text NOT NULL,
    anniversary     text,
    delivery_time   text,                            -- on their own clocks; empty: as everybody else
    leap            text,                            -- when 29 February is kept in other years
    target          text,
    attributes      text,
    created         integer NOT NULL,
    created_by      text,
    updated         integer NOT NULL
) STRICT;
CREATE UNIQUE INDEX users_key ON users (key, tenant) WHERE key IS NOT NULL;
CREATE INDEX users_tenant ON users (tenant, id);

-- A user's series has no row of its own: its head carries the rule by which it continues.
ALTER TABLE events ADD COLUMN rule text;
