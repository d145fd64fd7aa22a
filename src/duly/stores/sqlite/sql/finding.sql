-- People's searches that go beyond a page of the newest: in the order of due times, and counts.

-- fragment: whose_waiting
-- The tenants that have waiting events, or the one that is asked for: the index of waiting events begins with the tenant.
WITH RECURSIVE whose (tenant) AS (
    SELECT coalesce(:tenant, (SELECT min(e.tenant) FROM events AS e WHERE e.status = 'PENDING'))
    UNION ALL
    SELECT (SELECT min(e.tenant) FROM events AS e WHERE e.status = 'PENDING' AND e.tenant > whose.tenant)
    FROM whose WHERE whose.tenant IS NOT NULL AND :tenant IS NULL
)

-- name: waiting (read)
-- (SQLite has no LATERAL.)
{whose_waiting}
SELECT {e.event} FROM whose CROSS JOIN events AS e ON e.id IN (
    SELECT e.id FROM events AS e
    WHERE e.status = 'PENDING' AND e.tenant = whose.tenant AND (e.due, e.id) {beyond} (:after_due, :after_id)
      AND (e.due, e.id) {up_to} (:last_due, :last_id) AND ({where})
    ORDER BY e.due {order}, e.id {order} LIMIT :limit
) ORDER BY e.due {order}, e.id {order} LIMIT :limit

-- name: waiting_bound (read)
-- The last event of those that a page examines.
{whose_waiting}
SELECT e.due, e.id FROM whose CROSS JOIN events AS e ON e.id IN (
    SELECT e.id FROM events AS e
    WHERE e.status = 'PENDING' AND e.tenant = whose.tenant AND (e.due, e.id) {beyond} (:after_due, :after_id)
      AND (e.due, e.id) {up_to} (:last_due, :last_id) AND ({where})
    ORDER BY e.due {order}, e.id {order} LIMIT :examined
) ORDER BY e.due {order}, e.id {order} LIMIT 1 OFFSET :examined - 1

-- name: count_waiting (read)
{whose_waiting}
SELECT sum((
    SELECT count(*) FROM (
        SELECT 1 FROM events AS e WHERE e.status = 'PENDING' AND e.tenant = whose.tenant AND ({where}) LIMIT :most
    )
)) FROM whose

-- name: count_events (read)
SELECT count(*) FROM (SELECT 1 FROM events AS e WHERE ({where}) LIMIT :most)

-- name: count_users (read)
SELECT count(*) FROM (SELECT 1 FROM users AS u WHERE ({where}) LIMIT :most)

-- name: count_schedules (read)
SELECT count(*) FROM (SELECT 1 FROM schedules AS s WHERE (:tenant IS NULL OR s.tenant = :tenant) AND ({where}) LIMIT :most)

-- name: estimate_events (read)
-- SQLite keeps no statistics of values: of the newest rows, so many match, and the numbers of the first and the last row
-- tell how many there are.
SELECT total(matches), count(*), (SELECT max(rowid) FROM events) - (SELECT min(rowid) FROM events) + 1
FROM (SELECT ({where}) AS matches FROM events AS e ORDER BY e.id DESC LIMIT :examined)

-- name: estimate_users (read)
SELECT total(matches), count(*), (SELECT max(rowid) FROM users) - (SELECT min(rowid) FROM users) + 1
FROM (SELECT ({where}) AS matches FROM users AS u ORDER BY u.id DESC LIMIT :examined)

-- name: estimate_schedules (read)
SELECT count(*), 1, 1 FROM schedules AS s WHERE (:tenant IS NULL OR s.tenant = :tenant) AND ({where})

-- name: is_confined (read)
-- SQLite has no row-level security.
SELECT false

-- fragment: schedule_state
CASE WHEN NOT s.enabled THEN 'paused' ELSE coalesce(s.halt_kind, 'enabled') END

-- name: find_anything (read)
-- What has this id, key or name, or a name that begins so, with a rank: the best match has the least. Each part reads its
-- own index, and no more rows than it may return; of users' names, the first :examined that begin so are examined, of all
-- tenants. (With room for what is found twice, which is left out afterwards.)
SELECT * FROM (
    SELECT 0 AS rank, 'event' AS kind, e.id AS id, coalesce(e.key, e.freed_key) AS name, e.type AS title, e.status AS status
    FROM events AS e WHERE e.id = :id AND e.tenant = :tenant
    UNION ALL
    SELECT 0, 'user', u.id, u.key, u.first_name || ' ' || u.last_name, NULL
    FROM users AS u WHERE u.id = :id AND u.tenant = :tenant
    UNION ALL
    SELECT 0, 'schedule', s.id, s.name, s.type, {schedule_state} FROM schedules AS s WHERE s.id = :id AND s.tenant = :tenant
    UNION ALL
    SELECT 0, 'target', t.id, t.name, t.channel, NULL FROM targets AS t WHERE t.id = :id AND t.tenant = :tenant
    UNION ALL
    SELECT * FROM (
        SELECT 1, 'event', named.id, :text, named.type, named.status FROM (
            SELECT * FROM events WHERE tenant = :tenant AND key = :text AND key IS NOT NULL AND status <> 'CANCELLED'
            UNION ALL
            SELECT * FROM (SELECT * FROM events WHERE tenant = :tenant AND key = :text AND key IS NOT NULL AND status = 'CANCELLED'
                           ORDER BY id DESC LIMIT 1)
            UNION ALL
            SELECT * FROM (SELECT * FROM events WHERE tenant = :tenant AND freed_key = :text AND freed_key IS NOT NULL
                           ORDER BY id DESC LIMIT 1)
        ) AS named ORDER BY named.status IN ('PENDING', 'PROCESSING') DESC, named.id DESC LIMIT 1
    )
    UNION ALL
    SELECT 1, 'user', u.id, u.key, u.first_name || ' ' || u.last_name, NULL
    FROM users AS u WHERE u.tenant = :tenant AND u.key = :text AND u.key IS NOT NULL
    UNION ALL
    SELECT * FROM (
        SELECT iif(s.name = :text, 1, 3), 'schedule', s.id, s.name, s.type, {schedule_state}
        FROM schedules AS s WHERE s.tenant = :tenant AND s.name >= :text AND s.name < :beyond ORDER BY s.name LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT iif(t.name = :text, 1, 3), 'target', t.id, t.name, t.channel, NULL
        FROM targets AS t WHERE t.tenant = :tenant AND t.name >= :text AND t.name < :beyond ORDER BY t.name LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT iif(n.found = n.low, 2, 4), 'user', u.id, u.key, u.first_name || ' ' || u.last_name, NULL FROM (
            SELECT * FROM (
                SELECT value ->> 0 AS low, u.first_last AS found, u.id AS id, u.tenant AS tenant
                FROM json_each(:rows) CROSS JOIN users AS u ON u.first_last >= value ->> 0 AND u.first_last < value ->> 1
                LIMIT :examined
            )
            UNION ALL
            SELECT * FROM (
                SELECT value ->> 0, u.last_first, u.id, u.tenant
                FROM json_each(:rows) CROSS JOIN users AS u ON u.last_first >= value ->> 0 AND u.last_first < value ->> 1
                LIMIT :examined
            )
        ) AS n CROSS JOIN users AS u ON u.id = n.id
        WHERE n.tenant = :tenant ORDER BY 1, n.found, u.id LIMIT 2 * :limit
    )
) ORDER BY rank, kind, name, id LIMIT 3 * :limit

-- name: schedule_kinds (read)
SELECT tenant, type, state, count(*) FROM (
    SELECT s.tenant, s.type, CASE WHEN s.enabled THEN 'enabled' ELSE 'paused' END AS state FROM schedules AS s
    WHERE (:tenant IS NULL OR s.tenant = :tenant) AND ({where}) LIMIT :examined
) AS found GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT :most

-- name: event_kinds (read)
SELECT tenant, type, status, count(*) FROM (
    SELECT e.tenant, e.type, e.status FROM events AS e WHERE ({where}) LIMIT :examined
) AS found GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT :most

-- name: walk_schedules (read)
SELECT s.id, s.tenant, s.name, (SELECT h.id FROM events AS h WHERE h.series = 'schedule:' || s.id AND h.head)
FROM schedules AS s
WHERE (:tenant IS NULL OR s.tenant = :tenant) AND (s.tenant, s.name) > (:after_tenant, :after_name) AND ({where})
ORDER BY s.tenant, s.name LIMIT :limit

-- name: free_heads
-- Somebody who has locked one of the others is changing it.
SELECT {e.event} FROM events AS e WHERE e.series IN (SELECT value FROM json_each(:series)) AND e.head ORDER BY e.series

-- name: free_schedules
SELECT {s.schedule} FROM schedules AS s WHERE s.id IN (SELECT value FROM json_each(:ids)) AND ({where}) ORDER BY s.id

-- name: cancel_found
-- Cancels waiting events that nothing follows, and for whose end nothing waits.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT e.id, :now, 'cancelled', :by, e.version, :detail
FROM json_each(:rows) JOIN events AS e ON e.id = value ->> 0
WHERE e.version = value ->> 1 AND +e.status = 'PENDING' AND NOT e.head AND NOT e.gated;
UPDATE events SET status = 'CANCELLED', ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version FROM json_each(:rows)) AS given
WHERE events.id = given.id AND events.version = given.version AND +events.status = 'PENDING' AND NOT events.head
  AND NOT events.gated
RETURNING id
