-- Workers and lanes: who is at work, and what nobody serves.

-- name: beat
-- A beat need not survive a crash of the server: it does not wait for the disk. (The subquery depends on no row, so that it
-- runs first.)
WITH at_once AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS done)
INSERT INTO duly.workers AS w ({beat columns}, started, seen, last_pass, stopped)
SELECT {beat columns}, {now}, {now}, {now} - :since_pass::bigint * {us}, CASE WHEN :stops::boolean THEN {now} END
FROM {beat rows} WHERE (SELECT done FROM at_once) = 'off'
ON CONFLICT (name) DO UPDATE
SET {beat from excluded}, started = CASE WHEN :begins::boolean THEN excluded.started ELSE w.started END,
    seen = excluded.seen, last_pass = coalesce(excluded.last_pass, w.last_pass), stopped = excluded.stopped
RETURNING name

-- fragment: remember
-- Keeps when the lanes of deleted workers were last served.
remembered AS (
    INSERT INTO duly.lanes AS l (lane, served)
    SELECT lane, max(seen) FROM gone, json_array_elements_text(gone.lanes) AS lane GROUP BY lane ORDER BY lane
    ON CONFLICT (lane) DO UPDATE SET served = greatest(l.served, excluded.served)
)
SELECT name FROM gone

-- name: leave
WITH gone AS (DELETE FROM duly.workers WHERE name = :worker RETURNING name, lanes, {now} AS seen),
{remember}

-- name: forget_workers
-- Deletes the rows of workers that were not seen for long.
WITH picked AS MATERIALIZED (
    SELECT name FROM duly.workers WHERE seen < {now} - :memory::bigint * {us} ORDER BY name FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM duly.workers AS w USING picked WHERE w.name = picked.name RETURNING w.name, w.lanes, w.seen
),
{remember}

-- name: workers (read)
SELECT {w.worker} FROM duly.workers AS w ORDER BY kind DESC, host, name

-- name: remembered_lanes (read)
SELECT lane, served FROM duly.lanes

-- fragment: open_lanes
-- The lanes of events that wait, and of those that run or were interrupted. Each lane takes a lookup, however many events it
-- has.
RECURSIVE waiting (lane) AS (
    (SELECT lane FROM duly.events WHERE unsettled = 0 AND ready IS NOT NULL ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT lane FROM duly.events WHERE unsettled = 0 AND ready IS NOT NULL AND lane > waiting.lane ORDER BY lane LIMIT 1)
    FROM waiting WHERE waiting.lane IS NOT NULL
), leased (lane) AS (
    (SELECT lane FROM duly.events WHERE unsettled > 0 AND ready IS NOT NULL ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT lane FROM duly.events WHERE unsettled > 0 AND ready IS NOT NULL AND lane > leased.lane ORDER BY lane LIMIT 1)
    FROM leased WHERE leased.lane IS NOT NULL
)

-- name: waiting_lanes (read)
-- In each lane, since when the oldest event is ready.
WITH {open_lanes}
SELECT lane, min(ready) FROM (
    SELECT lane, (SELECT ready FROM duly.events AS e WHERE e.lane = waiting.lane AND unsettled = 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1) AS ready
    FROM waiting WHERE lane IS NOT NULL
    UNION ALL
    SELECT lane, (SELECT ready FROM duly.events AS e WHERE e.lane = leased.lane AND unsettled > 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1)
    FROM leased WHERE lane IS NOT NULL
) AS oldest
GROUP BY lane ORDER BY lane

-- name: lane_loads (read)
-- How many events of each lane are due, wait for their time, run, or were interrupted; of each at most :limit.
WITH {open_lanes}
SELECT lane,
       (SELECT ready FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1),
       (SELECT count(*) FROM (SELECT 1 FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL AND ready <= {now} LIMIT :limit) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL AND ready > {now} LIMIT :limit) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled > 0 AND ready IS NOT NULL AND ready > {now} LIMIT :limit) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled > 0 AND ready IS NOT NULL AND ready <= {now} LIMIT :limit) AS found)
FROM (SELECT lane FROM waiting UNION SELECT lane FROM leased) AS lanes WHERE lane IS NOT NULL ORDER BY lane

-- fragment: depths
-- How many events of each lane could begin now, those that a crash interrupted among them, at most :limit each; and since
-- when the oldest of them could.
lanes AS MATERIALIZED (
    SELECT lane FROM waiting WHERE lane IS NOT NULL UNION SELECT lane FROM leased WHERE lane IS NOT NULL
), depths AS MATERIALIZED (
    SELECT lane,
           (SELECT count(*) FROM (SELECT 1 FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL AND ready <= {now} LIMIT :limit) AS found)
         + (SELECT count(*) FROM (SELECT 1 FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled > 0 AND ready IS NOT NULL AND ready <= {now} LIMIT :limit) AS found) AS due,
           least((SELECT ready FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1),
                 (SELECT ready FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled > 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1)) AS oldest
    FROM lanes
)

-- name: figures (read)
-- What monitoring asks of the database, all at once. What may be millions of rows is counted by an index, up to :most; for
-- more, there is beside it what the planner knows of the size of that index since the last VACUUM or ANALYZE.
WITH {open_lanes}, {depths}
SELECT 'now', NULL, {micros}, NULL
UNION ALL SELECT 'lane', lane, due, (extract(epoch FROM oldest) * 1000000)::bigint FROM depths
UNION ALL SELECT 'pending', NULL, count(*), (SELECT reltuples::bigint FROM pg_class WHERE oid = 'duly.events_ready'::regclass) FROM (
    SELECT 1 FROM lanes CROSS JOIN LATERAL (
        SELECT 1 FROM duly.events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL AND ready > {now} LIMIT :most
    ) AS waits LIMIT :most
) AS found
UNION ALL SELECT 'dead', NULL, count(*), (SELECT reltuples::bigint FROM pg_class WHERE oid = 'duly.events_dead'::regclass)
          FROM (SELECT id FROM duly.events WHERE status = 'FAILED' LIMIT :most) AS found
UNION ALL SELECT 'held', hold_kind, count(*), NULL
          FROM (SELECT hold_kind FROM duly.events WHERE held IS NOT NULL LIMIT :most) AS found GROUP BY hold_kind
UNION ALL SELECT 'parked', NULL, count(*), NULL FROM (SELECT 1 FROM duly.destinations WHERE since IS NOT NULL LIMIT :most) AS found
UNION ALL SELECT 'halted', halt_kind, count(*), NULL FROM duly.schedules WHERE halt_kind IS NOT NULL GROUP BY halt_kind

-- name: lanes_of (read)
SELECT DISTINCT e.lane FROM duly.events AS e WHERE ({where})

-- name: count_ready (read)
-- How many events of a lane are ready before an instant, at most :limit.
SELECT count(*) FROM (
    SELECT 1 FROM duly.events WHERE lane = :lane AND unsettled = 0 AND ready IS NOT NULL AND ready <= :before LIMIT :limit
) AS found

-- name: ahead (read)
-- How many events of a lane are before a ready event, or run; and whether a rate allows no start now, as `allow` computes it.
SELECT (SELECT count(*) FROM (SELECT 1 FROM duly.events WHERE lane = :lane AND unsettled = 0 AND ready IS NOT NULL
                              AND ready <= :ready::timestamptz AND (ready, id) < (:ready::timestamptz, :id::uuid) LIMIT :limit) AS before),
       count(*), count(*) FILTER (WHERE tenant = :tenant),
       count(*) FILTER (WHERE tenant = :tenant AND destination IS NOT DISTINCT FROM :destination::text),
       EXISTS (SELECT 1 FROM duly.destinations AS d WHERE d.tenant = :tenant AND d.destination IN (coalesce(:destination::text, ''), '')
               AND d.rate IS NOT NULL AND d.spent_until > {now} - interval '1 second' / d.rate)
FROM (SELECT tenant, destination FROM duly.events
      WHERE lane = :lane AND unsettled > 0 AND ready IS NOT NULL AND ready > {now} LIMIT :limit) AS running
