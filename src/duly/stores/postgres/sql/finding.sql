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
    SELECT 1 FROM duly.schedules AS s WHERE (:tenant::text IS NULL OR s.tenant = :tenant) AND ({where}) LIMIT :most
) AS found

-- name: estimate_events (read)
EXPLAIN (FORMAT JSON) SELECT 1 FROM duly.events AS e WHERE ({where})

-- name: estimate_users (read)
EXPLAIN (FORMAT JSON) SELECT 1 FROM duly.users AS u WHERE ({where})

-- name: estimate_schedules (read)
EXPLAIN (FORMAT JSON) SELECT 1 FROM duly.schedules AS s WHERE (:tenant::text IS NULL OR s.tenant = :tenant) AND ({where})

-- name: is_confined (read)
SELECT duly.confined()

-- fragment: schedule_state
CASE WHEN NOT s.enabled THEN 'paused' ELSE coalesce(s.halt_kind, 'enabled') END

-- name: find_anything (read)
-- What has this id, key or name, or a name that begins so, with a rank: the best match has the least. Each part reads its
-- own index, and no more rows than it may return; of users' names, the first :examined that begin so are examined, of all
-- tenants that the caller may see. (With room for what is found twice, which is left out afterwards.)
SELECT rank, kind, id::text, name, title, status FROM (
    SELECT 0 AS rank, 'event' AS kind, e.id, coalesce(e.key, e.freed_key) AS name, e.type AS title, e.status AS status
    FROM duly.events AS e WHERE e.id = :id::uuid AND e.tenant = :tenant
    UNION ALL
    SELECT 0, 'user', u.id, u.key, u.first_name || ' ' || u.last_name, NULL
    FROM duly.users AS u WHERE u.id = :id::uuid AND u.tenant = :tenant
    UNION ALL
    SELECT 0, 'schedule', s.id, s.name, s.type, {schedule_state}
    FROM duly.schedules AS s WHERE s.id = :id::uuid AND s.tenant = :tenant
    UNION ALL
    SELECT 0, 'target', t.id, t.name, t.channel, NULL FROM duly.targets AS t WHERE t.id = :id::uuid AND t.tenant = :tenant
    UNION ALL
    (SELECT 1, 'event', named.id, :text, named.type, named.status FROM (
        (SELECT id, type, status FROM duly.events
         WHERE tenant = :tenant AND key = :text AND key IS NOT NULL AND status <> 'CANCELLED')
        UNION ALL
        (SELECT id, type, status FROM duly.events
         WHERE tenant = :tenant AND key = :text AND key IS NOT NULL AND status = 'CANCELLED' ORDER BY id DESC LIMIT 1)
        UNION ALL
        (SELECT id, type, status FROM duly.events
         WHERE tenant = :tenant AND freed_key = :text AND freed_key IS NOT NULL ORDER BY id DESC LIMIT 1)
    ) AS named ORDER BY named.status IN ('PENDING', 'PROCESSING') DESC, named.id DESC LIMIT 1)
    UNION ALL
    SELECT 1, 'user', u.id, u.key, u.first_name || ' ' || u.last_name, NULL
    FROM duly.users AS u WHERE u.tenant = :tenant AND u.key = :text AND u.key IS NOT NULL
    UNION ALL
    (SELECT CASE WHEN s.name = :text THEN 1 ELSE 3 END, 'schedule', s.id, s.name, s.type, {schedule_state}
     FROM duly.schedules AS s WHERE s.tenant = :tenant AND s.name >= :text AND s.name < :beyond
     ORDER BY s.name LIMIT :limit::bigint)
    UNION ALL
    (SELECT CASE WHEN t.name = :text THEN 1 ELSE 3 END, 'target', t.id, t.name, t.channel, NULL
     FROM duly.targets AS t WHERE t.tenant = :tenant AND t.name >= :text AND t.name < :beyond
     ORDER BY t.name LIMIT :limit::bigint)
    UNION ALL
    (SELECT CASE WHEN n.found = n.low THEN 2 ELSE 4 END AS rank, 'user', n.id, n.key, n.title, NULL FROM (
        SELECT b.low, u.* FROM unnest(:low::text[], :high::text[]) AS b (low, high) CROSS JOIN LATERAL (
            SELECT u.first_last AS found, u.id, u.tenant, u.key, u.first_name || ' ' || u.last_name AS title
            FROM duly.users AS u WHERE u.first_last >= b.low AND u.first_last < b.high
            ORDER BY u.first_last LIMIT :examined::bigint
        ) AS u
        UNION ALL
        SELECT b.low, u.* FROM unnest(:low::text[], :high::text[]) AS b (low, high) CROSS JOIN LATERAL (
            SELECT u.last_first AS found, u.id, u.tenant, u.key, u.first_name || ' ' || u.last_name AS title
            FROM duly.users AS u WHERE u.last_first >= b.low AND u.last_first < b.high
            ORDER BY u.last_first LIMIT :examined::bigint
        ) AS u
     ) AS n WHERE n.tenant = :tenant ORDER BY 1, n.found, n.id LIMIT 2 * :limit::bigint)
) AS found ORDER BY rank, kind, name, id LIMIT 3 * :limit::bigint

-- name: schedule_kinds (read)
SELECT tenant, type, state, count(*) FROM (
    SELECT s.tenant, s.type, CASE WHEN s.enabled THEN 'enabled' ELSE 'paused' END AS state FROM duly.schedules AS s
    WHERE (:tenant::text IS NULL OR s.tenant = :tenant) AND ({where}) LIMIT :examined
) AS found GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT :most

-- name: event_kinds (read)
SELECT tenant, type, status, count(*) FROM (
    SELECT e.tenant, e.type, e.status FROM duly.events AS e WHERE ({where}) LIMIT :examined
) AS found GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT :most

-- name: walk_schedules (read)
SELECT s.id::text, s.tenant, s.name, (SELECT h.id FROM duly.events AS h WHERE h.series = 'schedule:' || s.id AND h.head LIMIT 1)::text
FROM duly.schedules AS s
WHERE (:tenant::text IS NULL OR s.tenant = :tenant) AND (s.tenant, s.name) > (:after_tenant::text, :after_name::text) AND ({where})
ORDER BY s.tenant, s.name LIMIT :limit

-- name: free_heads
-- Somebody who has locked one of the others is changing it.
SELECT {e.event} FROM duly.events AS e WHERE e.series = ANY (:series::text[]) AND e.head ORDER BY e.series FOR UPDATE SKIP LOCKED

-- name: free_schedules
SELECT {s.schedule} FROM duly.schedules AS s WHERE s.id = ANY (:ids::uuid[]) AND ({where}) ORDER BY s.id FOR UPDATE SKIP LOCKED

-- name: cancel_found
-- Cancels waiting events that nothing follows, and for whose end nothing waits. A locked event is being changed by somebody
-- else, and is left alone.
WITH picked AS MATERIALIZED (
    SELECT e.id FROM unnest(:id::uuid[], :version::int[]) AS given (id, version)
    JOIN duly.events AS e
      ON e.id = given.id AND e.version = given.version AND e.status = CASE WHEN given.id IS NOT NULL THEN 'PENDING' END
    WHERE NOT e.head AND NOT e.gated
    FOR UPDATE OF e SKIP LOCKED
), e AS (
    UPDATE duly.events AS e SET status = 'CANCELLED', ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM picked))
    RETURNING e.id, e.version
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'cancelled', :by, version, :detail FROM e
)
SELECT id::text FROM e
