-- People, whom calendar events are for.
CREATE TABLE duly.users (
    id              uuid NOT NULL,
    tenant          text COLLATE "C" NOT NULL,
    key             text COLLATE "C",                -- what the caller's own system calls them
    first_name      text NOT NULL,
    last_name       text NOT NULL,
    date_of_birth   date NOT NULL,
    timezone        text COLLATE "C" NOT NULL,
    anniversary     date,
    delivery_time   text,                            -- on their own clocks; empty: at the usual time
    usual_time      text,                            -- of everybody, when this user was planned
    leap            text,                            -- when 29 February is kept in other years
    target          json,
    attributes      json,
    created         timestamptz NOT NULL,
    created_by      text,
    updated         timestamptz NOT NULL
);
-- In this order: while the table is empty, all plans cost the same, and the planner takes the index that was made last.
-- By that of tenants, it would look through all users of one for each key, for as long as the connection lives.
CREATE INDEX users_tenant ON duly.users (tenant, id);
CREATE UNIQUE INDEX users_key ON duly.users (key, tenant) WHERE key IS NOT NULL;
ALTER TABLE duly.users ADD PRIMARY KEY (id);

-- A user's series has no row of its own: its head carries the rule by which it continues.
ALTER TABLE duly.events ADD COLUMN rule json;

-- What is asked of schedules alone is indexed for schedules alone: each index less is a write less for every event of a
-- user, at its planning, its claim and its end.
DROP INDEX duly.events_series;
DROP INDEX duly.events_succeeded;
CREATE INDEX events_series ON duly.events (series, id) WHERE series IS NOT NULL AND rule IS NULL;
CREATE INDEX events_succeeded ON duly.events (series, settled)
    WHERE series IS NOT NULL AND settled IS NOT NULL AND rule IS NULL;
