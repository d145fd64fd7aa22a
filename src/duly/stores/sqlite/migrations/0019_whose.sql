-- An event tells whose it is: the name of its schedule, or the key of its user. It is stored with the event, so that neither
-- the claim nor a delivery has to look for it.
ALTER TABLE events ADD COLUMN owner text;
UPDATE events SET owner = (SELECT name FROM schedules WHERE id = substr(series, 10)) WHERE series LIKE 'schedule:%';
UPDATE events SET owner = (SELECT key FROM users WHERE id = substr(series, 6, 36)) WHERE series LIKE 'user:%';

-- What a tenant has set for an event type: its texts by language, and where events of users without a target go.
CREATE TABLE type_settings (
    tenant        text NOT NULL,
    type          text NOT NULL,
    texts         text NOT NULL,
    target        text,
    via           text,
    follow_at     integer,            -- when the events of users go on to follow the last change; empty: they have followed
    follow_after  text,               -- the last user whose events have followed it
    recheck       integer NOT NULL,   -- whether these are the users who were being added while it was made
    created       integer NOT NULL,
    updated       integer NOT NULL,
    PRIMARY KEY (tenant, type)
) STRICT;
CREATE INDEX type_settings_following ON type_settings (follow_at) WHERE follow_at IS NOT NULL;
