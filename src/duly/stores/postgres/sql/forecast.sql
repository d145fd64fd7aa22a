-- What is known to become due.

-- name: count_due (read)
-- Waiting events by step and type, and how many heads of users among them may have their next occurrence before the end as
-- well. Events before the range are in no step; of these, only such heads matter. (OFFSET 0 keeps the planner from joining
-- the few tenants with a scan of all events, in every window.)
{whose_waiting}, counted AS (
    SELECT nullif(width_bucket(e.due, :begins::timestamptz[]), 0) - 1 AS step, e.type, count(*) AS many,
           count(*) FILTER (WHERE e.head AND e.rule IS NOT NULL AND (
               e.next_state IS DISTINCT FROM 'known' OR e.next_scheduled < :ends)) AS repeating
    FROM whose CROSS JOIN LATERAL (
        SELECT * FROM duly.events AS e
        WHERE e.status = 'PENDING' AND e.tenant = whose.tenant AND e.due >= :since AND e.due < :until
          AND (e.due >= :start OR e.head) AND e.hold_kind IS DISTINCT FROM 'paused'
          AND NOT (e.head AND e.series IN (
              SELECT 'schedule:' || s.id FROM duly.schedules AS s WHERE s.policies ->> 'mode' = 'shadow'))
        OFFSET 0
    ) AS e WHERE whose.tenant IS NOT NULL GROUP BY 1, 2
), frequent AS (
    SELECT type FROM counted WHERE step IS NOT NULL GROUP BY type ORDER BY sum(many) DESC, type LIMIT :types
)
SELECT step, CASE WHEN type IN (SELECT f.type FROM frequent AS f) THEN type END,
       sum(many)::bigint, sum(repeating)::bigint
FROM counted GROUP BY 1, 2

-- name: repeating_heads (read)
{whose_waiting}
SELECT e.type, e.rule::text, e.timezone, greatest(coalesce(e.scheduled, e.due), e.due), count(*)
FROM whose CROSS JOIN LATERAL (
    SELECT * FROM duly.events AS e
    WHERE e.status = 'PENDING' AND e.tenant = whose.tenant AND e.due >= :since AND e.due < :until
      AND e.head AND e.rule IS NOT NULL AND (e.next_state IS DISTINCT FROM 'known' OR e.next_scheduled < :ends)
    OFFSET 0
) AS e
WHERE whose.tenant IS NOT NULL
GROUP BY 1, 2, 3, 4 ORDER BY 4 LIMIT :limit

-- name: scheduled_heads (read)
-- (By the instant of the rule, not by the due time: jitter may move an occurrence behind the one that follows it. Of a
-- schedule whose pause ends in time, also its held head, which `count_due` leaves out.)
SELECT s.id::text, s.name, s.tenant, s.type, s.rule::text, s.timezone, s.policies::text, s.earlier::text,
       e.due, coalesce(e.scheduled, e.due), e.occurrence,
       s.paused_since, CASE WHEN NOT s.enabled THEN s.paused_until END, s.pause_passed
FROM duly.schedules AS s JOIN duly.events AS e ON e.series = 'schedule:' || s.id AND e.head
WHERE e.status = 'PENDING' AND e.scheduled < :ends
  AND (s.enabled AND (e.next_state IS DISTINCT FROM 'known' OR e.next_scheduled < :ends) OR NOT s.enabled AND s.paused_until < :ends)
  AND coalesce(s.policies ->> 'mode', '') <> 'shadow' AND (:tenant::text IS NULL OR s.tenant = :tenant)
ORDER BY e.scheduled LIMIT :limit
