-- API keys, and stored responses of the API.

-- name: add_key
INSERT INTO api_keys ({add_key columns}, created) SELECT {add_key columns}, :now FROM {add_key rows}
RETURNING id

-- name: key (read)
SELECT {api_key} FROM api_keys WHERE id = :id

-- name: key_by_hash (read)
SELECT {api_key}, :now FROM api_keys WHERE hash = :hash

-- name: known_hashes (read)
SELECT hash FROM api_keys WHERE hash IN (SELECT value FROM json_each(:hashes))

-- name: list_keys (read)
SELECT {api_key} FROM api_keys
WHERE (:tenant IS NULL OR tenant = :tenant) AND id < :before ORDER BY id DESC LIMIT :limit

-- name: keys_named (read)
-- Keys that are neither revoked nor expired.
SELECT {api_key} FROM api_keys
WHERE name = :key_name AND (:tenant IS NULL OR tenant = :tenant) AND revoked IS NULL
  AND (expires IS NULL OR expires > :now)
ORDER BY id DESC LIMIT :limit

-- name: revoke_key
UPDATE api_keys SET revoked = :now WHERE id = :id AND revoked IS NULL RETURNING id

-- name: use_keys
UPDATE api_keys SET last_used = :now WHERE id IN (SELECT value FROM json_each(:ids)) RETURNING id

-- name: begin_session
INSERT INTO sessions (hash, key_id, created, expires) VALUES (:hash, :key, :now, :now + :lifetime) RETURNING hash

-- name: session_key (read)
-- The API key of a session that has neither expired nor ended.
SELECT {k.api_key}, :now FROM sessions AS s JOIN api_keys AS k ON k.id = s.key_id
WHERE s.hash = :hash AND s.expires > :now

-- name: end_session
DELETE FROM sessions WHERE hash = :hash RETURNING hash

-- name: forget_sessions
DELETE FROM sessions WHERE expires <= :now RETURNING hash

-- name: any_key (read)
SELECT EXISTS (SELECT 1 FROM api_keys)

-- fragment: kept
r.status IS NOT NULL AND r.created > :now - :memory

-- name: recall
-- Other writers are waited for when the transaction begins. A request that is too old, or was never answered, counts as
-- new.
INSERT INTO requests AS r (tenant, key, fingerprint, created) VALUES (:tenant, :key, :fingerprint, :now)
ON CONFLICT (tenant, key) DO UPDATE
SET fingerprint = CASE WHEN {kept} THEN r.fingerprint ELSE excluded.fingerprint END,
    status = CASE WHEN {kept} THEN r.status END, headers = CASE WHEN {kept} THEN r.headers END,
    body = CASE WHEN {kept} THEN r.body END, created = CASE WHEN {kept} THEN r.created ELSE excluded.created END
RETURNING fingerprint, status, headers, body

-- name: stored_response (read)
SELECT fingerprint, status, headers, body FROM requests AS r WHERE r.tenant = :tenant AND r.key = :key AND {kept}

-- name: remember
UPDATE requests SET status = :status, headers = :headers, body = :body WHERE tenant = :tenant AND key = :key
RETURNING key

-- name: forget_requests
DELETE FROM requests WHERE rowid IN (
    SELECT rowid FROM requests WHERE created <= :now - :memory ORDER BY created LIMIT :limit
) RETURNING key
