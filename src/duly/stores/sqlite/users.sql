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
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT id, :now, 'skipped', :by, version, :detail FROM events WHERE id IN (SELECT value FROM json_each(:ids));
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
