-- What became of the recent occurrences of schedules.

-- name: recent_runs (read)
-- The newest events of each series, without its head. (Ids sort by their time of creation.)
SELECT e.series, e.id::text, e.status, e.due, e.executed, e.occurrence, e.scheduled, e.stands_for,
       CASE WHEN e.status IN ('SKIPPED', 'CANCELLED') THEN coalesce(
                (SELECT detail FROM duly.journal AS j WHERE j.subject = e.id ORDER BY j.id DESC LIMIT 1), e.last_error)
            WHEN e.status <> 'COMPLETED' THEN coalesce(e.last_error, e.held) END
FROM unnest(:series::text[]) AS given (series) CROSS JOIN LATERAL (
    SELECT * FROM duly.events
    WHERE series = given.series AND rule IS NULL AND id < :before::uuid AND NOT head ORDER BY id DESC LIMIT :limit
) AS e ORDER BY e.series, e.id DESC
