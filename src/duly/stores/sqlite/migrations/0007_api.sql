-- Who may call the HTTP API. The key itself is nowhere: only its hash.
CREATE TABLE api_keys (
    id          text PRIMARY KEY,
    tenant      text NOT NULL,
    name        text NOT NULL,
    scope       text NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
    hash        text NOT NULL UNIQUE,               -- SHA-256 of the key
    hint        text NOT NULL,                      -- how the key begins, for people
    rate        real,                               -- requests a second; empty: as the server allows
    created     integer NOT NULL,
    created_by  text,
    expires     integer,
    revoked     integer,
    last_used   integer
) STRICT;

-- What was answered to requests that carry a key of their own, for those that come again.
CREATE TABLE requests (
    tenant      text NOT NULL,
    key         text NOT NULL,
    fingerprint text NOT NULL,                      -- of what was asked
    status      integer,                            -- empty until it is answered
    headers     text,
    body        blob,
    created     integer NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT;
CREATE INDEX requests_created ON requests (created);
