-- People's searches that go beyond a page of the newest: in the order of due times, and counts.

-- fragment: waits
-- By the index of waiting events, whose condition this is.
e.status = 'PENDING' AND e.due > '-infinity'

-- fragment: whose_waiting
-- The tenants that have waiting events, or the one that is asked for: the index of waiting events begins with the tenant.
WITH RECURSIVE whose (tenant) AS (
    SELECT coalesce(:tenant::text, (SELECT min(e.tenant) FROM duly.events AS e WHERE {waits}))
    UNION ALL
    SELECT (SELECT min(e.tenant) FROM duly.events AS e WHERE {waits} AND e.tenant > whose.tenant)
    FROM whose WHERE whose.tenant IS NOT NULL AND :tenant::text IS NULL
)

-- name: waiting (read)
{whose_waiting}
SELECT {e.event} FROM whose CROSS JOIN LATERAL (
    SELECT * FROM duly.events AS e
    WHERE {waits} AND e.tenant = whose.tenant
      AND (e.due, e.id) {beyond} (:after_due::timestamptz, :after_id::uuid)
      AND (e.due, e.id) {up_to} (:last_due::timestamptz, :last_id::uuid) AND ({where})
    ORDER BY e.due {order}, e.id {order} LIMIT :limit
) AS e ORDER BY e.due {order}, e.id {order} LIMIT :limit

-- name: waiting_bound (read)
-- The last event of those that a page examines.
{whose_waiting}
SELECT e.due, e.id::text FROM whose CROSS JOIN LATERAL (
    SELECT e.due, e.id FROM duly.events AS e
    WHERE {waits} AND e.tenant = whose.tenant
      AND (e.due, e.id) {beyond} (:after_due::timestamptz, :after_id::uuid)
      AND (e.due, e.id) {up_to} (:last_due::timestamptz, :last_id::uuid) AND ({where})
    ORDER BY e.due {order}, e.id {order} LIMIT :examined
) AS e ORDER BY e.due {order}, e.id {order} OFFSET :examined - 1 LIMIT 1

-- name: count_waiting (read)
{whose_waiting}
SELECT sum((
    SELECT count(*) FROM (
        SELECT 1 FROM duly.events AS e WHERE {waits} AND e.tenant = whose.tenant AND ({where}) LIMIT :most
    ) AS found
))::bigint FROM whose

-- name: count_events (read)
SELECT count(*) FROM (SELECT 1 FROM duly.events AS e WHERE ({where}) LIMIT :most) AS found

-- name: count_users (read)
SELECT count(*) FROM (SELECT 1 FROM duly.users AS u WHERE ({where}) LIMIT :most) AS found

-- name: count_schedules (read)
SELECT count(*) FROM (
    SELECT 1 FROM duly.schedules AS s WHERE :tenant::text IS NULL OR s.tenant = :tenant LIMIT :most
) AS found

-- name: estimate_events (read)
EXPLAIN (FORMAT JSON) SELECT 1 FROM duly.events AS e WHERE ({where})

-- name: estimate_users (read)
EXPLAIN (FORMAT JSON) SELECT 1 FROM duly.users AS u WHERE ({where})

-- name: estimate_schedules (read)
EXPLAIN (FORMAT JSON) SELECT 1 FROM duly.schedules AS s WHERE :tenant::text IS NULL OR s.tenant = :tenant

-- name: is_confined (read)
SELECT duly.confined()
