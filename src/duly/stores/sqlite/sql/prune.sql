-- Deleting finished events. What outlives its retention, and why, is told in PostgreSQL's file.

-- fragment: of_rule
-- Whether its name is that of an occurrence by the rule: it is a date or an instant.
f.occurrence < 'a'

-- fragment: over
-- Occurrences until then are over for as long as the retention. (In microseconds: 48 hours.)
CASE WHEN f.occurrence LIKE '%Z' THEN f.before ELSE min(f.before, :now - 172800000000) END

-- fragment: owner_id
-- The schedule or user whose series this is; empty if that was deleted.
coalesce((SELECT s.id FROM schedules AS s WHERE f.series LIKE 'schedule:%' AND s.id = substr(f.series, 10)),
         (SELECT u.id FROM users AS u WHERE f.series LIKE 'user:%' AND u.id = substr(f.series, 6, 36)))

-- fragment: next_of_series
(SELECT min(n.due, n.scheduled) FROM events AS n WHERE n.series = f.series AND n.head)

-- name: prunable (read)
-- The next events by id, of those that may be deleted: there is no index of finished events, which each settlement would
-- have to write. (The last run is looked up once for each schedule: there may be many skipped events after it.) The first
-- two columns are the last of the events that were looked at,
-- and when the oldest of them was created.
WITH cutoffs AS MATERIALIZED (
    SELECT value ->> 0 AS status, value ->> 1 AS type, value ->> 2 AS before FROM json_each(:rows)
), page AS MATERIALIZED (
    SELECT id, status, type, series, occurrence, rule IS NOT NULL AS ruled, key IS NOT NULL AND asked IS NOT NULL AS asked,
           due, coalesce(scheduled, due) AS scheduled, claimed, settled, created
    FROM events WHERE id > :after ORDER BY id LIMIT :limit
), finished AS MATERIALIZED (
    SELECT page.*,
           coalesce(settled, (SELECT max(at) FROM journal WHERE subject = page.id), claimed, created) AS ended,
           coalesce((SELECT before FROM cutoffs WHERE cutoffs.type = page.type),
                    (SELECT before FROM cutoffs WHERE cutoffs.status = page.status),
                    (SELECT before FROM cutoffs WHERE cutoffs.status = '' AND cutoffs.type = '')) AS before
    FROM page WHERE status IN ('COMPLETED', 'CANCELLED', 'SKIPPED') AND created <= (SELECT max(before) FROM cutoffs)
), last_runs AS MATERIALIZED (
    SELECT ran.series, (SELECT n.id FROM events AS n WHERE n.series = ran.series AND n.rule IS NULL AND n.claimed IS NOT NULL
                        AND NOT n.head AND n.status <> 'SKIPPED' ORDER BY n.id DESC LIMIT 1) AS id
    FROM (SELECT DISTINCT series FROM finished
          WHERE series IS NOT NULL AND NOT ruled AND claimed IS NOT NULL AND status <> 'SKIPPED' AND ended <= before) AS ran
), found AS MATERIALIZED (
    SELECT f.id, f.status, f.type, f.ended FROM finished AS f
    WHERE CASE
        WHEN f.ended > f.before THEN false
        WHEN f.status = 'CANCELLED' AND f.asked AND f.ended > :now - :memory THEN false
        WHEN f.series IS NULL OR {owner_id} IS NULL THEN true
        WHEN f.occurrence >= 'backfill:' AND f.occurrence < 'backfill;' AND f.ended > :now - :memory THEN false
        WHEN {of_rule} AND (f.scheduled > {over} OR f.scheduled >= {next_of_series})
            THEN false
        WHEN f.ruled THEN NOT (f.occurrence >= 'given up ' AND f.occurrence < 'given up!' AND {next_of_series} IS NULL)
        WHEN f.settled = (SELECT max(n.settled) FROM events AS n
                          WHERE n.series = f.series AND n.rule IS NULL AND n.settled IS NOT NULL) THEN false
        WHEN f.status = 'SKIPPED' OR f.claimed IS NULL THEN true
        ELSE f.id IS NOT (SELECT last_runs.id FROM last_runs WHERE last_runs.series = f.series)
    END
)
SELECT last.id, (SELECT min(created) FROM page), found.id, found.status, found.type, found.ended
FROM (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last LEFT JOIN found ON true

-- name: take_upkeep
INSERT INTO upkeep AS u (task, worker, until, place) VALUES (:task, :worker, :now + :lease, coalesce(:place, ''))
ON CONFLICT (task) DO UPDATE SET worker = excluded.worker, until = excluded.until, place = coalesce(:place, u.place)
WHERE u.worker = excluded.worker OR u.until <= :now
RETURNING place
