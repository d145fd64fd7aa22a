-- Users and their heads; the fragments are those of queries.sql.

-- fragment: user
id, tenant, key, first_name, last_name, date_of_birth, timezone, anniversary, delivery_time, leap, target, attributes,
created, created_by, updated, usual_time, via

-- fragment: of_head
e.id, e.tenant, e.type, e.lane, e.status, e.due, e.ready, e.version, e.attempts, e.unsettled - (e.status = 'PROCESSING'),
e.stands_for, e.payload, e.target, e.retry, e.key, e.correlation_id, e.series, e.occurrence, e.head, e.held,
e.last_error, e.created, e.claimed, e.executed, e.worker, e.scheduled, e.timezone, e.zone_data, e.gated, e.rule, e.destination,
e.via

-- fragment: of_users
-- (A user's series begin with `user:<id>:`, and `;` is the character after the colon. CROSS JOIN: in this order.)
json_each(:ids) AS wanted CROSS JOIN events AS e
  ON e.series >= 'user:' || wanted.value || ':' AND e.series < 'user:' || wanted.value || ';' AND e.series IS NOT NULL

-- name: user (read)
SELECT {user} FROM users WHERE id = :id

-- name: user_by_key (read)
SELECT {user} FROM users WHERE tenant = :tenant AND key = :key AND key IS NOT NULL

-- name: users_by_keys (read)
SELECT {user} FROM users WHERE tenant = :tenant AND key IN (SELECT value FROM json_each(:keys)) AND key IS NOT NULL

-- name: list_users (read)
SELECT {user} FROM users WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: list_users_of (read)
SELECT {user} FROM users WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit

-- name: walk_users (read)
SELECT id FROM users WHERE id > :after ORDER BY id LIMIT :limit

-- name: walk_users_of (read)
SELECT id FROM users WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit

-- name: lock_users
SELECT {user} FROM users WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id

-- name: add_users
INSERT INTO users (id, tenant, key, first_name, last_name, date_of_birth, timezone, anniversary, delivery_time, leap,
                   target, attributes, usual_time, via, created, created_by, updated)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, :now, :by, :now
FROM jsonb_each(:rows) WHERE true
ON CONFLICT DO NOTHING
RETURNING id

-- name: change_users
UPDATE users
SET key = given.key, first_name = given.first_name, last_name = given.last_name, date_of_birth = given.date_of_birth,
    timezone = given.timezone, anniversary = given.anniversary, delivery_time = given.delivery_time, leap = given.leap,
    target = given.target, attributes = given.attributes, usual_time = given.usual_time, via = given.via,
    updated = :now
FROM (SELECT value ->> 0 AS id, value ->> 2 AS key, value ->> 3 AS first_name, value ->> 4 AS last_name,
             value ->> 5 AS date_of_birth, value ->> 6 AS timezone, value ->> 7 AS anniversary,
             value ->> 8 AS delivery_time, value ->> 9 AS leap, value ->> 10 AS target, value ->> 11 AS attributes,
             value ->> 12 AS usual_time, value ->> 13 AS via
      FROM json_each(:rows)) AS given
WHERE users.id = given.id
RETURNING id

-- name: set_usual_time
UPDATE users SET usual_time = :at WHERE id IN (SELECT value FROM json_each(:ids)) RETURNING id

-- name: delete_users
DELETE FROM users WHERE id IN (SELECT value FROM json_each(:ids)) RETURNING id

-- name: user_heads
SELECT {of_head} FROM {of_users} WHERE e.head ORDER BY e.id

-- name: user_head_ids (read)
SELECT e.id FROM {of_users} WHERE e.head

-- name: heads_of_users (read)
-- To be looked at.
SELECT {of_head} FROM {of_users} WHERE e.head

-- name: give_up
-- Heads that nobody wants any more. One whose time is still to come gives its name back: whoever wants that occurrence
-- again shall have it.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT id, :now, 'skipped', :by, version, :detail FROM events WHERE id IN (SELECT value FROM json_each(:ids));
UPDATE events
SET status = 'SKIPPED', head = 0, ready = NULL, held = NULL,
    occurrence = iif(scheduled > :now, 'given up ' || id, occurrence)
WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id

-- name: cancel_users
-- All that has not begun.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT e.id, :now, 'cancelled', :by, e.version, :detail FROM {of_users}
WHERE e.status = 'PENDING' AND e.attempts = 0 AND e.unsettled = 0;
UPDATE events SET status = 'CANCELLED', head = 0, ready = NULL, held = NULL
WHERE id IN (SELECT e.id FROM {of_users} WHERE e.status = 'PENDING' AND e.attempts = 0 AND e.unsettled = 0)
RETURNING id
