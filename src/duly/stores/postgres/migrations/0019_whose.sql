-- An event tells whose it is: the name of its schedule, or the key of its user. It is stored with the event, so that neither
-- the claim nor a delivery has to look for it.
ALTER TABLE duly.events ADD COLUMN owner text COLLATE "C";
UPDATE duly.events AS e SET owner = s.name
FROM duly.schedules AS s WHERE e.series LIKE 'schedule:%' AND substr(e.series, 10) = s.id::text;
UPDATE duly.events AS e SET owner = u.key
FROM duly.users AS u WHERE e.series LIKE 'user:%' AND substr(e.series, 6, 36) = u.id::text AND u.key IS NOT NULL;

-- Users are found by their attributes. (jsonb cannot hold the character U+0000, which json can: no filter can ask for it.)
CREATE FUNCTION duly.searchable(attributes json) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN strpos($1::text, '\u0000') = 0 THEN $1::jsonb
           ELSE regexp_replace($1::text, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::jsonb END
$$;
CREATE INDEX users_attributes ON duly.users USING gin (duly.searchable(attributes) jsonb_path_ops)
    WHERE attributes IS NOT NULL;

-- What a tenant has set for an event type: its texts by language, and where events of users without a target go.
CREATE TABLE duly.type_settings (
    tenant        text COLLATE "C" NOT NULL,
    type          text COLLATE "C" NOT NULL,
    texts         json NOT NULL,
    target        json,
    via           text COLLATE "C",
    follow_at     timestamptz,        -- when the events of users go on to follow the last change; empty: they have followed
    follow_after  text COLLATE "C",   -- the last user whose events have followed it
    recheck       boolean NOT NULL,   -- whether these are the users who were being added while it was made
    created       timestamptz NOT NULL,
    updated       timestamptz NOT NULL,
    PRIMARY KEY (tenant, type)
);
CREATE INDEX type_settings_following ON duly.type_settings (follow_at) WHERE follow_at IS NOT NULL;

ALTER TABLE duly.type_settings ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON duly.type_settings
    USING (NOT duly.confined() OR coalesce(tenant = nullif(current_setting('duly.tenant', true), ''), false));
