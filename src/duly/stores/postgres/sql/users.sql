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
    INSERT INTO duly.journal (subject, at, act, worker, version, detail, cause)
    SELECT id, {now}, 'skipped', :by, version, :detail, 'edited' FROM e
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

-- name: lock_events_of_user
-- All events of a user, also of one who was deleted.
SELECT e.id::text, e.status, e.owner FROM duly.events AS e
WHERE e.series >= 'user:' || :user || ':' AND e.series < 'user:' || :user || ';' AND e.tenant = :tenant
ORDER BY e.id FOR UPDATE

-- fragment: tells_of
-- Whether somebody who has acted has a name that tells of the user. The names of one who was deleted before are unknown:
-- then it may be anybody but a worker.
((:anybody::boolean AND worker !~ '^(worker|tick)-')
 OR (SELECT count(*) FROM unnest(:words::text[]) AS word WHERE strpos(worker, word) > 0) > 0)

-- name: erase_user
-- (Returns a row for each thing that was done.)
-- Scrubs locked events that are not under way, and the histories of these and of the user: what is left says when what was
-- done, and not for whom. What would still be delivered, or could be replayed, is cancelled.
WITH was AS MATERIALIZED (
    SELECT id, status, version FROM duly.events WHERE id = ANY (:ids::uuid[])
), history AS (
    UPDATE duly.journal
    SET detail = NULL, output = NULL, worker = CASE WHEN {tells_of} THEN 'erased' ELSE worker END
    WHERE subject = ANY (:ids::uuid[] || :user::uuid) AND (detail IS NOT NULL OR output IS NOT NULL OR {tells_of})
    RETURNING 1
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, CASE WHEN status = 'FAILED' THEN 'discarded' ELSE 'cancelled' END, :by, version, :detail
    FROM was WHERE status IN ('PENDING', 'FAILED')
    RETURNING act
), scrubbed AS (
    UPDATE duly.events AS e
    SET status = CASE WHEN was.status IN ('PENDING', 'FAILED') THEN 'CANCELLED' ELSE was.status END,
        payload = 'null', target = NULL, destination = NULL, owner = NULL, rule = '{}', correlation_id = NULL,
        last_error = NULL, output = NULL, head = false, ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL,
        worker = CASE WHEN {tells_of} THEN 'erased' ELSE worker END
    FROM was WHERE e.id = was.id
    RETURNING 1
)
SELECT 'history' FROM history UNION ALL SELECT act FROM audit UNION ALL SELECT 'event' FROM scrubbed

-- name: erase_answers
-- Scrubs what was answered to requests about a user. A request that comes again is not carried out again: its key counts as
-- used for another one. One whose own key tells of the user is forgotten.
WITH found AS MATERIALIZED (
    SELECT key, (SELECT count(*) FROM unnest(:words::text[]) AS word WHERE strpos(r.key, word) > 0) > 0 AS tells
    FROM duly.requests AS r WHERE r.tenant = :tenant AND position(convert_to(:user, 'UTF8') IN r.body) > 0
), forgotten AS (
    DELETE FROM duly.requests WHERE tenant = :tenant AND key IN (SELECT key FROM found WHERE tells)
), scrubbed AS (
    UPDATE duly.requests SET fingerprint = 'erased', headers = '{}', body = ''
    WHERE tenant = :tenant AND key IN (SELECT key FROM found WHERE NOT tells)
)
SELECT key FROM found

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
