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
    delivery_time   text,                            -- on their own clocks; empty: at the usual time
    usual_time      text,                            -- of everybody, when this user was planned
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

-- What is asked of schedules alone is indexed for schedules alone: each index less is a write less for every event of a
-- user, at its planning, its claim and its end.
DROP INDEX events_series;
DROP INDEX events_succeeded;
CREATE INDEX events_series ON events (series, id) WHERE series IS NOT NULL AND rule IS NULL;
CREATE INDEX events_succeeded ON events (series, settled)
    WHERE series IS NOT NULL AND settled IS NOT NULL AND rule IS NULL;
