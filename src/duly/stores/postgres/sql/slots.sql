-- What is known of one occurrence of a schedule, for the question why it did not run.

-- fragment: of_near
id, occurrence, scheduled, due, claimed, stands_for

-- name: near_occurrence (read)
-- The events of a series whose names are next to a name, and the one that a backfill has made of it. What stands for
-- several occurrences is named by the first or last of them, and the journal has from which to which.
SELECT near.id::text, near.occurrence, coalesce(near.scheduled, near.due), near.due, near.claimed, j.first, j.last
FROM (
    (SELECT {of_near} FROM duly.events WHERE series = :series AND occurrence >= :occurrence AND occurrence < 'a'
     ORDER BY occurrence LIMIT :many)
    UNION ALL
    (SELECT {of_near} FROM duly.events WHERE series = :series AND occurrence < :occurrence
     ORDER BY occurrence DESC LIMIT :many)
    UNION ALL
    SELECT {of_near} FROM duly.events WHERE series = :series AND occurrence = :backfilled
) AS near
LEFT JOIN LATERAL (
    SELECT first, last FROM duly.journal AS j
    WHERE j.subject = near.id AND near.stands_for > 1 AND j.first IS NOT NULL ORDER BY j.id DESC LIMIT 1
) AS j ON true

-- name: acts_on_schedule (read)
-- What has changed whether a schedule fires, among the latest entries of its history, the oldest first.
SELECT {entry} FROM (
    SELECT * FROM duly.journal WHERE subject = :subject::uuid ORDER BY id DESC LIMIT :examined
) AS latest
WHERE act IN ('created', 'changed', 'paused', 'resumed', 'halted') ORDER BY id
