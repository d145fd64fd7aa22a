-- API keys, and stored responses of the API.

-- name: add_key
INSERT INTO duly.api_keys ({add_key columns}, created) SELECT {add_key columns}, {now} FROM {add_key rows}
RETURNING id::text

-- name: key (read)
SELECT {k.api_key} FROM duly.api_keys AS k WHERE id = :id::uuid

-- name: key_by_hash (read)
SELECT {k.api_key}, {micros} FROM duly.api_keys AS k WHERE hash = :hash

-- name: known_hashes (read)
SELECT hash FROM duly.api_keys WHERE hash = ANY (:hashes::text[])

-- name: list_keys (read)
SELECT {k.api_key} FROM duly.api_keys AS k
WHERE (:tenant::text IS NULL OR tenant = :tenant) AND id < :before::uuid ORDER BY id DESC LIMIT :limit

-- name: keys_named (read)
-- Keys that are neither revoked nor expired.
SELECT {k.api_key} FROM duly.api_keys AS k
WHERE name = :key_name AND (:tenant::text IS NULL OR tenant = :tenant) AND revoked IS NULL
  AND (expires IS NULL OR expires > {now})
ORDER BY id DESC LIMIT :limit

-- name: revoke_key
UPDATE duly.api_keys SET revoked = {now} WHERE id = :id::uuid AND revoked IS NULL RETURNING id::text

-- name: use_keys
UPDATE duly.api_keys SET last_used = {now} WHERE id = ANY (:ids::uuid[]) RETURNING id::text

-- name: begin_session
INSERT INTO duly.sessions (hash, key_id, created, expires) VALUES (:hash, :key::uuid, {now}, {now} + :lifetime::bigint * {us})
RETURNING hash

-- name: session_key (read)
-- The API key of a session that has neither expired nor ended.
SELECT {k.api_key}, {micros} FROM duly.sessions AS s JOIN duly.api_keys AS k ON k.id = s.key_id
WHERE s.hash = :hash AND s.expires > {now}

-- name: end_session
DELETE FROM duly.sessions WHERE hash = :hash RETURNING hash

-- name: forget_sessions
DELETE FROM duly.sessions WHERE expires <= {now} RETURNING hash

-- name: any_key (read)
SELECT EXISTS (SELECT FROM duly.api_keys)

-- fragment: kept
r.status IS NOT NULL AND r.created > {now} - :memory::bigint * {us}

-- name: recall
-- Waits for an open transaction that owns the same key. A request that is too old, or was never answered, counts as
-- new.
INSERT INTO duly.requests AS r (tenant, key, fingerprint, created) VALUES (:tenant, :key, :fingerprint, {now})
ON CONFLICT (tenant, key) DO UPDATE
SET fingerprint = CASE WHEN {kept} THEN r.fingerprint ELSE excluded.fingerprint END,
    status = CASE WHEN {kept} THEN r.status END, headers = CASE WHEN {kept} THEN r.headers END,
    body = CASE WHEN {kept} THEN r.body END, created = CASE WHEN {kept} THEN r.created ELSE excluded.created END
RETURNING r.fingerprint, r.status, r.headers, r.body

-- name: stored_response (read)
SELECT r.fingerprint, r.status, r.headers, r.body FROM duly.requests AS r
WHERE r.tenant = :tenant AND r.key = :key AND {kept}

-- name: remember
UPDATE duly.requests SET status = :status, headers = :headers, body = :body WHERE tenant = :tenant AND key = :key
RETURNING key

-- name: forget_requests
WITH picked AS MATERIALIZED (
    SELECT tenant, key FROM duly.requests WHERE created <= {now} - :memory::bigint * {us}
    ORDER BY created LIMIT :limit FOR UPDATE SKIP LOCKED
)
DELETE FROM duly.requests AS r USING picked WHERE r.tenant = picked.tenant AND r.key = picked.key RETURNING r.key
