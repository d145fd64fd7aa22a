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
SELECT count(*) FROM (SELECT 1 FROM schedules AS s WHERE :tenant IS NULL OR s.tenant = :tenant LIMIT :most)

-- name: estimate_events (read)
-- SQLite keeps no statistics of values: of the newest rows, so many match, and the numbers of the first and the last row
-- tell how many there are.
SELECT total(matches), count(*), (SELECT max(rowid) FROM events) - (SELECT min(rowid) FROM events) + 1
FROM (SELECT ({where}) AS matches FROM events AS e ORDER BY e.id DESC LIMIT :examined)

-- name: estimate_users (read)
SELECT total(matches), count(*), (SELECT max(rowid) FROM users) - (SELECT min(rowid) FROM users) + 1
FROM (SELECT ({where}) AS matches FROM users AS u ORDER BY u.id DESC LIMIT :examined)

-- name: estimate_schedules (read)
SELECT count(*), 1, 1 FROM schedules AS s WHERE :tenant IS NULL OR s.tenant = :tenant

-- name: is_confined (read)
-- SQLite has no row-level security.
SELECT false
