-- Users and their heads; the fragments are those of queries.sql.

-- fragment: of_user
-- (A user's series begin with `user:<id>:`, and `;` is the character after the colon.)
series >= 'user:' || wanted.id || ':' AND series < 'user:' || wanted.id || ';'

-- name: user (read)
SELECT {u.user} FROM duly.users AS u WHERE id = :id::uuid

-- name: user_by_key (read)
SELECT {u.user} FROM duly.users AS u WHERE key = :key AND tenant = :tenant

-- name: users_by_keys (read)
-- (LIMIT: so that each user is looked up in the index. Otherwise a plan that was made for a small table would read all
-- users for each key, for as long as the connection lives.)
SELECT {u.user} FROM unnest(:keys::text[]) AS wanted (key)
CROSS JOIN LATERAL (SELECT * FROM duly.users WHERE key = wanted.key AND tenant = :tenant LIMIT 1) AS u

-- name: list_users (read)
SELECT {u.user} FROM duly.users AS u WHERE id < :before::uuid AND {where} ORDER BY id DESC LIMIT :limit

-- name: list_users_of (read)
-- (Each condition alone spans several tenants, together they select one: so only the index of tenants has the rows in
-- this order.)
SELECT {u.user} FROM duly.users AS u
WHERE tenant >= :tenant AND (tenant, id) < (:tenant, :before::uuid) AND {where} ORDER BY tenant DESC, id DESC LIMIT :limit

-- name: walk_users (read)
SELECT id::text FROM duly.users WHERE id > :after::uuid ORDER BY id LIMIT :limit

-- name: walk_users_of (read)
SELECT id::text FROM duly.users
WHERE tenant <= :tenant AND (tenant, id) > (:tenant, :after::uuid) ORDER BY tenant, id LIMIT :limit

-- name: lock_users
SELECT {u.user} FROM duly.users AS u WHERE id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE

-- name: add_users
INSERT INTO duly.users ({users columns}, created, created_by, updated)
SELECT {users columns}, {now}, :by, {now}
FROM {users rows}
ON CONFLICT DO NOTHING
RETURNING id::text

-- name: change_users
UPDATE duly.users AS u
SET {users from given}, updated = {now}
FROM {users rows}
WHERE u.id = given.id
RETURNING u.id::text

-- name: set_usual_time
UPDATE duly.users SET usual_time = :at WHERE id = ANY (:ids::uuid[]) RETURNING id::text

-- name: delete_users
DELETE FROM duly.users WHERE id = ANY (:ids::uuid[]) RETURNING id::text

-- name: user_heads
-- (OFFSET, here and below: heads are looked up user by user, regardless of the statistics.)
SELECT {e.event} FROM unnest(:ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM duly.events WHERE {of_user} AND head ORDER BY series OFFSET 0 FOR UPDATE) AS e

-- name: user_head_ids (read)
SELECT e.id::text FROM unnest(:ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT id FROM duly.events WHERE {of_user} AND head OFFSET 0) AS e

-- name: heads_of_users (read)
-- Without locks, for display.
SELECT {e.event} FROM unnest(:ids::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM duly.events WHERE {of_user} AND head OFFSET 0) AS e

-- name: give_up
-- Skips heads that are no longer wanted. A head in the future gives the name of its occurrence back, so that the
-- occurrence can be planned again.
WITH e AS (
    UPDATE duly.events AS e
    SET status = 'SKIPPED', head = false, ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL,
        occurrence = CASE WHEN scheduled > {now} THEN 'given up ' || id ELSE occurrence END
    WHERE id = ANY (:ids::uuid[])
    RETURNING e.id, e.version
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'skipped', :by, version, :detail FROM e
)
SELECT id::text FROM e

-- name: cancel_users
-- Cancels all events that have not begun.
WITH picked AS MATERIALIZED (
    SELECT e.id FROM unnest(:ids::uuid[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT id FROM duly.events
        WHERE {of_user} AND status = 'PENDING' AND attempts = 0 AND unsettled = 0 ORDER BY series, id OFFSET 0 FOR UPDATE
    ) AS e
), e AS (
    UPDATE duly.events AS e SET status = 'CANCELLED', head = false, ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM picked))
    RETURNING e.id, e.version
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'cancelled', :by, version, :detail FROM e
)
SELECT id::text FROM e

-- name: type_settings_of (read)
SELECT {t.type_settings} FROM duly.type_settings AS t WHERE tenant = ANY (:tenants::text[])

-- name: make_type_settings
-- Made before they are locked and read: two first changes at once must not overwrite each other.
INSERT INTO duly.type_settings (tenant, type, texts, recheck, created, updated)
VALUES (:tenant::text, :type::text, '{}', false, {now}, {now}) ON CONFLICT DO NOTHING
RETURNING tenant

-- name: lock_type_settings
SELECT {t.type_settings} FROM duly.type_settings AS t WHERE tenant = :tenant AND type = :type FOR UPDATE

-- name: put_type_settings
INSERT INTO duly.type_settings ({put_type_settings columns}, created, updated)
SELECT {put_type_settings columns}, {now}, {now} FROM {put_type_settings rows} WHERE true
ON CONFLICT (tenant, type) DO UPDATE SET {put_type_settings from excluded}, updated = excluded.updated
RETURNING tenant

-- name: lock_following
-- The settings whose change the events of users have followed least recently, of types that are known here.
SELECT {t.type_settings} FROM duly.type_settings AS t
WHERE follow_at <= {now} AND type = ANY (:types::text[]) AND tenant = coalesce(:tenant::text, tenant)
ORDER BY follow_at LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: set_following
UPDATE duly.type_settings SET follow_at = :follow_at::timestamptz, follow_after = :follow_after::text, recheck = :recheck::boolean
WHERE tenant = :tenant AND type = :type
RETURNING tenant
