-- Sessions of the dashboard. A session has no rights of its own: it is worth what its API key is worth at the moment.
CREATE TABLE sessions (
    hash     text PRIMARY KEY,                      -- of the secret in the cookie
    key_id   text NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    created  integer NOT NULL,
    expires  integer NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_expires ON sessions (expires);
