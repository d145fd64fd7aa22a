-- Users and their heads; the fragments are those of queries.sql.

-- fragment: of_users
-- (A user's series begin with `user:<id>:`, and `;` is the character after the colon. CROSS JOIN: SQLite must keep this
-- order.)
json_each(:ids) AS wanted CROSS JOIN events AS e
  ON e.series >= 'user:' || wanted.value || ':' AND e.series < 'user:' || wanted.value || ';' AND e.series IS NOT NULL

-- name: user (read)
SELECT {user} FROM users WHERE id = :id

-- name: user_by_key (read)
SELECT {user} FROM users WHERE tenant = :tenant AND key = :key AND key IS NOT NULL

-- name: users_by_keys (read)
SELECT {user} FROM users WHERE tenant = :tenant AND key IN (SELECT value FROM json_each(:keys)) AND key IS NOT NULL

-- name: list_users (read)
SELECT {u.user} FROM users AS u WHERE u.id < :before AND {where} ORDER BY id DESC LIMIT :limit

-- name: list_users_of (read)
SELECT {u.user} FROM users AS u WHERE tenant = :tenant AND id < :before AND {where} ORDER BY id DESC LIMIT :limit

-- name: walk_users (read)
SELECT id FROM users WHERE id > :after ORDER BY id LIMIT :limit

-- name: walk_users_of (read)
SELECT id FROM users WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit

-- name: lock_users
SELECT {user} FROM users WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id

-- name: add_users
INSERT INTO users ({users columns}, created, created_by, updated)
SELECT {users columns}, :now, :by, :now FROM {users rows} WHERE true
ON CONFLICT DO NOTHING
RETURNING id

-- name: change_users
UPDATE users
SET {users from given}, updated = :now
FROM {users rows}
WHERE users.id = given.id
RETURNING id

-- name: set_usual_time
UPDATE users SET usual_time = :at WHERE id IN (SELECT value FROM json_each(:ids)) RETURNING id

-- name: delete_users
DELETE FROM users WHERE id IN (SELECT value FROM json_each(:ids)) RETURNING id

-- name: user_heads
SELECT {e.event} FROM {of_users} WHERE e.head ORDER BY e.id

-- name: user_head_ids (read)
SELECT e.id FROM {of_users} WHERE e.head

-- name: heads_of_users (read)
-- Without locks, for display.
SELECT {e.event} FROM {of_users} WHERE e.head

-- name: give_up
-- Skips heads that are no longer wanted. A head in the future gives the name of its occurrence back, so that the
-- occurrence can be planned again.
INSERT INTO journal (subject, at, act, worker, version, detail, cause)
SELECT id, :now, 'skipped', :by, version, :detail, 'edited' FROM events WHERE id IN (SELECT value FROM json_each(:ids));
UPDATE events
SET status = 'SKIPPED', head = 0, ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL,
    occurrence = iif(scheduled > :now, 'given up ' || id, occurrence)
WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id

-- name: cancel_users
-- Cancels all events that have not begun.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT e.id, :now, 'cancelled', :by, e.version, :detail FROM {of_users}
WHERE e.status = 'PENDING' AND e.attempts = 0 AND e.unsettled = 0;
UPDATE events SET status = 'CANCELLED', head = 0, ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL
WHERE id IN (SELECT e.id FROM {of_users} WHERE e.status = 'PENDING' AND e.attempts = 0 AND e.unsettled = 0)
RETURNING id

-- name: lock_events_of_user
-- All events of a user, also of one who was deleted.
SELECT e.id, e.status, e.owner FROM events AS e
WHERE e.series >= 'user:' || :user || ':' AND e.series < 'user:' || :user || ';' AND e.series IS NOT NULL AND e.tenant = :tenant
ORDER BY e.id

-- fragment: tells_of
-- Whether somebody who has acted has a name that tells of the user. The names of one who was deleted before are unknown:
-- then it may be anybody but a worker.
((:anybody AND worker NOT LIKE 'worker-%' AND worker NOT LIKE 'tick-%')
 OR EXISTS (SELECT 1 FROM json_each(:words) AS word WHERE instr(worker, word.value) > 0))

-- name: erase_user
-- (Returns a row for each thing that was done.)
-- Scrubs locked events that are not under way, and the histories of these and of the user: what is left says when what was
-- done, and not for whom. What would still be delivered, or could be replayed, is cancelled.
UPDATE journal SET detail = NULL, output = NULL, worker = iif({tells_of}, 'erased', worker)
WHERE (subject IN (SELECT value FROM json_each(:ids)) OR subject = :user)
  AND (detail IS NOT NULL OR output IS NOT NULL OR {tells_of})
RETURNING 'history';
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT id, :now, iif(status = 'FAILED', 'discarded', 'cancelled'), :by, version, :detail
FROM events WHERE id IN (SELECT value FROM json_each(:ids)) AND +status IN ('PENDING', 'FAILED')
RETURNING act;
UPDATE events
SET status = iif(status IN ('PENDING', 'FAILED'), 'CANCELLED', status),
    payload = 'null', target = NULL, destination = NULL, owner = NULL, rule = '{}', correlation_id = NULL,
    last_error = NULL, output = NULL, head = 0, ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL,
    worker = iif({tells_of}, 'erased', worker)
WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING 'event'

-- fragment: answers
requests.tenant = :tenant AND instr(requests.body, CAST(:user AS blob)) > 0

-- fragment: key_tells
EXISTS (SELECT 1 FROM json_each(:words) AS word WHERE instr(requests.key, word.value) > 0)

-- name: erase_answers
-- Scrubs what was answered to requests about a user. A request that comes again is not carried out again: its key counts as
-- used for another one. One whose own key tells of the user is forgotten.
DELETE FROM requests WHERE {answers} AND {key_tells} RETURNING key;
UPDATE requests SET fingerprint = 'erased', headers = '{}', body = x'' WHERE {answers} RETURNING key

-- name: type_settings_of (read)
SELECT {type_settings} FROM type_settings WHERE tenant IN (SELECT value FROM json_each(:tenants))

-- name: make_type_settings
-- Made before they are locked and read: two first changes at once must not overwrite each other.
INSERT INTO type_settings (tenant, type, texts, recheck, created, updated)
VALUES (:tenant, :type, '{}', false, :now, :now) ON CONFLICT DO NOTHING
RETURNING tenant

-- name: lock_type_settings
SELECT {type_settings} FROM type_settings WHERE tenant = :tenant AND type = :type

-- name: put_type_settings
INSERT INTO type_settings ({put_type_settings columns}, created, updated)
SELECT {put_type_settings columns}, :now, :now FROM {put_type_settings rows} WHERE true
ON CONFLICT (tenant, type) DO UPDATE SET {put_type_settings from excluded}, updated = excluded.updated
RETURNING tenant

-- name: lock_following
-- The settings whose change the events of users have followed least recently, of types that are known here.
SELECT {type_settings} FROM type_settings
WHERE follow_at <= :now AND type IN (SELECT value FROM json_each(:types)) AND tenant = coalesce(:tenant, tenant)
ORDER BY follow_at LIMIT 1

-- name: set_following
UPDATE type_settings SET follow_at = :follow_at, follow_after = :follow_after, recheck = :recheck
WHERE tenant = :tenant AND type = :type
RETURNING tenant
