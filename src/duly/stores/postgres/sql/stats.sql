-- Roll-ups of runs. `complete` and a trigger of the journal write what has ended to `ended_runs`; a worker moves it to
-- `roll_ups`. Whoever asks for figures reads both, in one statement.

-- name: add_ended
-- SQLite only: `complete` itself does it here.
SELECT WHERE false

-- name: has_ended (read)
SELECT 1 FROM duly.ended_runs LIMIT 1

-- name: take_ended
-- (There is no order in which rows become visible, so none is relied on: what is not seen yet is taken the next time.)
DELETE FROM duly.ended_runs WHERE ctid = ANY (ARRAY(SELECT ctid FROM duly.ended_runs LIMIT :limit FOR UPDATE SKIP LOCKED))
RETURNING at, tenant, schedule, type, lane, status, duration, lateness, many

-- name: roll_ups (read)
SELECT r.tenant, r.schedule, r.span, r.begins, r.type, r.lane, completed, failed, skipped, duration::text, lateness::text, NULL
FROM unnest(:tenant::text[], :schedule::text[], :span::text[], :begins::timestamptz[], :type::text[], :lane::text[])
    AS wanted (tenant, schedule, span, begins, type, lane)
CROSS JOIN LATERAL (
    SELECT * FROM duly.roll_ups AS r
    WHERE r.schedule = wanted.schedule AND r.tenant = wanted.tenant AND r.span = wanted.span AND r.begins = wanted.begins
      AND r.type = wanted.type AND r.lane = wanted.lane
    OFFSET 0
) AS r

-- name: put_roll_ups
INSERT INTO duly.roll_ups (tenant, schedule, span, begins, type, lane, completed, failed, skipped, duration, lateness)
SELECT tenant, schedule, span, begins, type, lane, completed, failed, skipped, duration::json, lateness::json
FROM unnest(:tenant::text[], :schedule::text[], :span::text[], :begins::timestamptz[], :type::text[], :lane::text[],
            :completed::bigint[], :failed::bigint[], :skipped::bigint[], :duration::text[], :lateness::text[])
    AS given (tenant, schedule, span, begins, type, lane, completed, failed, skipped, duration, lateness)
ON CONFLICT (schedule, tenant, span, begins, type, lane) DO UPDATE
SET completed = excluded.completed, failed = excluded.failed, skipped = excluded.skipped,
    duration = excluded.duration, lateness = excluded.lateness

-- name: forget_roll_ups
DELETE FROM duly.roll_ups WHERE ctid = ANY (ARRAY(
    (SELECT ctid FROM duly.roll_ups WHERE span = 'hour' AND begins < {now} - :hours::bigint * {us} LIMIT :limit)
    UNION ALL
    (SELECT ctid FROM duly.roll_ups WHERE span = 'day' AND begins < {now} - :days::bigint * {us} LIMIT :limit)
))
RETURNING begins

-- name: count_runs (read)
-- (A range of tenants instead of `:tenant IS NULL OR`, so that the primary key finds them.)
SELECT begins, type, lane, completed, failed, skipped, duration::text, lateness::text, NULL::bigint FROM duly.roll_ups
WHERE schedule = :schedule AND tenant >= coalesce(:tenant::text, '') AND tenant <= coalesce(:tenant::text, (SELECT max(tenant) FROM duly.roll_ups))
  AND (span = 'day' AND begins >= :day::timestamptz AND begins < :last_day::timestamptz
       OR span = 'hour' AND (begins >= :since::timestamptz AND begins < :day OR begins >= :last_day AND begins < :until::timestamptz))
UNION ALL
SELECT at, type, lane, CASE WHEN status = 'COMPLETED' THEN many ELSE 0 END, CASE WHEN status = 'FAILED' THEN many ELSE 0 END,
       CASE WHEN status = 'SKIPPED' THEN many ELSE 0 END, duration::text, lateness::text, many
FROM duly.ended_runs
WHERE at >= :since AND at < :until AND (:tenant IS NULL OR tenant = :tenant) AND (:schedule = '' OR schedule = :schedule)
