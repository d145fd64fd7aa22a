-- What is known to become due.

-- name: count_due (read)
-- Waiting events by step and type, and how many heads of users among them may have their next occurrence before the end as
-- well. Events before the range are in no step; of these, only such heads matter.
{whose_waiting}, counted AS (
    SELECT iif(e.due >= :start, (e.due - :start) / :step, NULL) AS step, e.type, count(*) AS many,
           sum(e.head AND e.rule IS NOT NULL AND (e.next_state IS NOT 'known' OR e.next_scheduled < :ends)) AS repeating
    FROM whose CROSS JOIN events AS e
    WHERE e.status = 'PENDING' AND e.tenant = whose.tenant AND e.due >= :since AND e.due < :until
      AND (e.due >= :start OR e.head) AND e.hold_kind IS NOT 'paused'
      AND NOT (e.head AND e.series IN (
          SELECT 'schedule:' || s.id FROM schedules AS s WHERE s.policies ->> 'mode' = 'shadow'))
    GROUP BY 1, 2
), frequent AS (
    SELECT type FROM counted WHERE step IS NOT NULL GROUP BY type ORDER BY sum(many) DESC, type LIMIT :types
)
SELECT step, iif(type IN (SELECT type FROM frequent), type, NULL), sum(many), sum(repeating) FROM counted GROUP BY 1, 2

-- name: repeating_heads (read)
{whose_waiting}
SELECT e.type, e.rule, e.timezone, max(coalesce(e.scheduled, e.due), e.due), count(*)
FROM whose CROSS JOIN events AS e
WHERE e.status = 'PENDING' AND e.tenant = whose.tenant AND e.due >= :since AND e.due < :until
  AND e.head AND e.rule IS NOT NULL AND (e.next_state IS NOT 'known' OR e.next_scheduled < :ends)
GROUP BY 1, 2, 3, 4 ORDER BY 4 LIMIT :limit

-- name: scheduled_heads (read)
-- (By the instant of the rule, not by the due time: jitter may move an occurrence behind the one that follows it. Of a
-- schedule whose pause ends in time, also its held head, which `count_due` leaves out.)
SELECT s.id, s.name, s.tenant, s.type, s.rule, s.timezone, s.policies, s.earlier,
       e.due, coalesce(e.scheduled, e.due), e.occurrence,
       s.paused_since, CASE WHEN NOT s.enabled THEN s.paused_until END, s.pause_passed
FROM schedules AS s CROSS JOIN events AS e ON e.series = 'schedule:' || s.id AND e.head
WHERE e.status = 'PENDING' AND e.scheduled < :ends
  AND (s.enabled AND (e.next_state IS NOT 'known' OR e.next_scheduled < :ends) OR NOT s.enabled AND s.paused_until < :ends)
  AND coalesce(s.policies ->> 'mode', '') <> 'shadow' AND (:tenant IS NULL OR s.tenant = :tenant)
ORDER BY e.scheduled LIMIT :limit
