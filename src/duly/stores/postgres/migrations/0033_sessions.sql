-- Sessions of the dashboard. A session has no rights of its own: it is worth what its API key is worth at the moment.
CREATE TABLE duly.sessions (
    hash     text COLLATE "C" PRIMARY KEY,          -- of the secret in the cookie
    key_id   uuid NOT NULL REFERENCES duly.api_keys (id) ON DELETE CASCADE,
    created  timestamptz NOT NULL,
    expires  timestamptz NOT NULL
);

CREATE INDEX sessions_expires ON duly.sessions (expires);

-- The role of the API has no privilege on this table, and no row of it exists for it.
ALTER TABLE duly.sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY nobody ON duly.sessions USING (NOT duly.confined());
