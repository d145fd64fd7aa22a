-- What became of the recent occurrences of schedules.

-- name: recent_runs (read)
-- The newest events of each series, without its head. (SQLite has no LATERAL. Ids sort by their time of creation.)
SELECT e.series, e.id, e.status, e.due, e.executed, e.occurrence, e.scheduled, e.stands_for,
       CASE WHEN e.status IN ('SKIPPED', 'CANCELLED') THEN coalesce(
                (SELECT detail FROM journal WHERE subject = e.id ORDER BY id DESC LIMIT 1), e.last_error)
            WHEN e.status <> 'COMPLETED' THEN coalesce(e.last_error, e.held) END
FROM json_each(:series) AS given CROSS JOIN events AS e ON e.id IN (
    SELECT id FROM events
    WHERE series = given.value AND rule IS NULL AND id < :before AND NOT head ORDER BY id DESC LIMIT :limit
) ORDER BY e.series, e.id DESC
