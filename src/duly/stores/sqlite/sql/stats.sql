-- Roll-ups of runs. The driver runs `add_ended` after `complete`, in the same transaction, and triggers write other ends; a
-- worker moves them to `roll_ups`. Whoever asks for figures reads both, in one statement.

-- name: add_ended
-- (Differs from PostgreSQL, where `complete` does it: here, the rows of the events would be looked up a second time, and the
-- worker knows all that is in them.)
INSERT INTO ended_runs (at, tenant, schedule, type, lane, status, duration, lateness, many)
SELECT :now, value ->> 0, value ->> 1, value ->> 2, value ->> 3, 'COMPLETED', value ->> 4, value ->> 5, value ->> 6
FROM json_each(:ended)

-- name: has_ended (read)
SELECT 1 FROM ended_runs LIMIT 1

-- name: take_ended
DELETE FROM ended_runs WHERE rowid IN (SELECT rowid FROM ended_runs ORDER BY rowid LIMIT :limit)
RETURNING at, tenant, schedule, type, lane, status, duration, lateness, many

-- name: roll_ups (read)
SELECT r.tenant, r.schedule, r.span, r.begins, r.type, r.lane, completed, failed, skipped, duration, lateness, NULL
FROM json_each(:rows) AS wanted CROSS JOIN roll_ups AS r
ON r.schedule = value ->> 1 AND r.tenant = value ->> 0 AND r.span = value ->> 2 AND r.begins = value ->> 3
   AND r.type = value ->> 4 AND r.lane = value ->> 5

-- name: put_roll_ups
INSERT INTO roll_ups (tenant, schedule, span, begins, type, lane, completed, failed, skipped, duration, lateness)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8,
       value ->> 9, value ->> 10
FROM json_each(:rows) WHERE true
ON CONFLICT (schedule, tenant, span, begins, type, lane) DO UPDATE
SET completed = excluded.completed, failed = excluded.failed, skipped = excluded.skipped,
    duration = excluded.duration, lateness = excluded.lateness

-- name: forget_roll_ups
DELETE FROM roll_ups WHERE (schedule, tenant, span, begins, type, lane) IN (
    SELECT * FROM (SELECT schedule, tenant, span, begins, type, lane FROM roll_ups
                   WHERE span = 'hour' AND begins < :now - :hours LIMIT :limit)
    UNION ALL
    SELECT * FROM (SELECT schedule, tenant, span, begins, type, lane FROM roll_ups
                   WHERE span = 'day' AND begins < :now - :days LIMIT :limit)
)
RETURNING begins

-- name: count_runs (read)
-- (A range of tenants instead of `:tenant IS NULL OR`, so that the primary key finds them.)
SELECT begins, type, lane, completed, failed, skipped, duration, lateness, NULL FROM roll_ups
WHERE schedule = :schedule AND tenant >= coalesce(:tenant, '') AND tenant <= coalesce(:tenant, (SELECT max(tenant) FROM roll_ups))
  AND (span = 'day' AND begins >= :day AND begins < :last_day
       OR span = 'hour' AND (begins >= :since AND begins < :day OR begins >= :last_day AND begins < :until))
UNION ALL
SELECT at, type, lane, iif(status = 'COMPLETED', many, 0), iif(status = 'FAILED', many, 0), iif(status = 'SKIPPED', many, 0),
       duration, lateness, many
FROM ended_runs
WHERE at >= :since AND at < :until AND (:tenant IS NULL OR tenant = :tenant) AND (:schedule = '' OR schedule = :schedule)
