-- Workers and lanes: who is at work, and what nobody serves.

-- name: beat
-- (The driver does not wait for the disk here: a beat need not survive a power cut.)
INSERT INTO workers AS w ({beat columns}, started, seen, last_pass, stopped)
SELECT {beat columns}, :now, :now, :now - :since_pass, iif(:stops, :now, NULL) FROM {beat rows} WHERE true
ON CONFLICT (name) DO UPDATE
SET {beat from excluded}, started = iif(:begins, excluded.started, w.started),
    seen = excluded.seen, last_pass = coalesce(excluded.last_pass, w.last_pass), stopped = excluded.stopped
RETURNING name

-- name: leave
-- Keeps when the lanes of the deleted worker were last served.
INSERT INTO lanes AS l (lane, served)
SELECT value, :now FROM workers AS w JOIN json_each(w.lanes) WHERE w.name = :worker
ON CONFLICT (lane) DO UPDATE SET served = max(l.served, excluded.served);
DELETE FROM workers WHERE name = :worker RETURNING name

-- name: forget_workers
-- Deletes the rows of workers that were not seen for long.
INSERT INTO lanes AS l (lane, served)
SELECT value, max(w.seen) FROM workers AS w JOIN json_each(w.lanes) WHERE w.seen < :now - :memory GROUP BY value
ON CONFLICT (lane) DO UPDATE SET served = max(l.served, excluded.served);
DELETE FROM workers WHERE seen < :now - :memory RETURNING name

-- name: workers (read)
SELECT {w.worker} FROM workers AS w ORDER BY kind DESC, host, name

-- name: remembered_lanes (read)
SELECT lane, served FROM lanes

-- fragment: open_lanes
-- The lanes of events that wait, and of those that run or were interrupted. Each lane takes a lookup, however many events it
-- has.
RECURSIVE waiting (lane) AS (
    SELECT min(lane) FROM events WHERE unsettled = 0 AND ready IS NOT NULL
    UNION ALL
    SELECT (SELECT lane FROM events WHERE unsettled = 0 AND ready IS NOT NULL AND lane > waiting.lane ORDER BY lane LIMIT 1)
    FROM waiting WHERE waiting.lane IS NOT NULL
), leased (lane) AS (
    SELECT min(lane) FROM events WHERE unsettled > 0 AND ready IS NOT NULL
    UNION ALL
    SELECT (SELECT lane FROM events WHERE unsettled > 0 AND ready IS NOT NULL AND lane > leased.lane ORDER BY lane LIMIT 1)
    FROM leased WHERE leased.lane IS NOT NULL
)

-- name: waiting_lanes (read)
-- In each lane, since when the oldest event is ready.
WITH {open_lanes}
SELECT lane, min(ready) FROM (
    SELECT lane, (SELECT ready FROM events AS e WHERE e.lane = waiting.lane AND unsettled = 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1) AS ready
    FROM waiting WHERE lane IS NOT NULL
    UNION ALL
    SELECT lane, (SELECT ready FROM events AS e WHERE e.lane = leased.lane AND unsettled > 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1)
    FROM leased WHERE lane IS NOT NULL
) AS oldest
GROUP BY lane ORDER BY lane

-- name: lane_loads (read)
-- How many events of each lane are due, wait for their time, run, or were interrupted; of each at most :limit.
WITH {open_lanes}
SELECT lane,
       (SELECT ready FROM events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1),
       (SELECT count(*) FROM (SELECT 1 FROM events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL AND ready <= :now LIMIT :limit) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL AND ready > :now LIMIT :limit) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM events AS e WHERE e.lane = lanes.lane AND unsettled > 0 AND ready IS NOT NULL AND ready > :now LIMIT :limit) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM events AS e WHERE e.lane = lanes.lane AND unsettled > 0 AND ready IS NOT NULL AND ready <= :now LIMIT :limit) AS found)
FROM (SELECT lane FROM waiting UNION SELECT lane FROM leased) AS lanes WHERE lane IS NOT NULL ORDER BY lane

-- fragment: depths
-- How many events of each lane could begin now, those that a crash interrupted among them, at most :limit each; and since
-- when the oldest of them could.
lanes AS MATERIALIZED (
    SELECT lane FROM waiting WHERE lane IS NOT NULL UNION SELECT lane FROM leased WHERE lane IS NOT NULL
), depths AS MATERIALIZED (
    SELECT lane,
           (SELECT count(*) FROM (SELECT 1 FROM events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL AND ready <= :now LIMIT :limit) AS found)
         + (SELECT count(*) FROM (SELECT 1 FROM events AS e WHERE e.lane = lanes.lane AND unsettled > 0 AND ready IS NOT NULL AND ready <= :now LIMIT :limit) AS found) AS due,
           (SELECT min(ready) FROM (
                SELECT (SELECT ready FROM events AS e WHERE e.lane = lanes.lane AND unsettled = 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1) AS ready
                UNION ALL
                SELECT (SELECT ready FROM events AS e WHERE e.lane = lanes.lane AND unsettled > 0 AND ready IS NOT NULL ORDER BY ready LIMIT 1))) AS oldest
    FROM lanes
)

-- name: figures (read)
-- What monitoring asks of the database, all at once. What may be millions of rows is counted by an index, up to :most.
-- (SQLite's planner knows no sizes unless somebody runs ANALYZE, so there is no estimate for more.)
WITH {open_lanes}, {depths}
SELECT 'now', NULL, :now, NULL
UNION ALL SELECT 'lane', lane, due, oldest FROM depths
UNION ALL SELECT 'pending', NULL, count(*), NULL FROM (
    SELECT 1 FROM lanes CROSS JOIN events AS e ON e.lane = lanes.lane
    WHERE unsettled = 0 AND ready IS NOT NULL AND ready > :now LIMIT :most
)
UNION ALL SELECT 'dead', NULL, count(*), NULL FROM (SELECT id FROM events WHERE status = 'FAILED' LIMIT :most)
UNION ALL SELECT 'held', hold_kind, count(*), NULL
          FROM (SELECT hold_kind FROM events WHERE held IS NOT NULL LIMIT :most) GROUP BY hold_kind
UNION ALL SELECT 'parked', NULL, count(*), NULL FROM (SELECT 1 FROM destinations WHERE since IS NOT NULL LIMIT :most)
UNION ALL SELECT 'halted', halt_kind, count(*), NULL FROM schedules WHERE halt_kind IS NOT NULL GROUP BY halt_kind

-- name: lanes_of (read)
SELECT DISTINCT e.lane FROM events AS e WHERE ({where})

-- name: count_ready (read)
-- How many events of a lane are ready before an instant, at most :limit.
SELECT count(*) FROM (
    SELECT 1 FROM events WHERE lane = :lane AND unsettled = 0 AND ready IS NOT NULL AND ready <= :before LIMIT :limit
) AS found

-- name: ahead (read)
-- How many events of a lane are before a ready event, or run; and whether a rate allows no start now, as `allow` computes it.
SELECT (SELECT count(*) FROM (SELECT 1 FROM events WHERE lane = :lane AND unsettled = 0 AND ready IS NOT NULL
                              AND ready <= :ready AND (ready, id) < (:ready, :id) LIMIT :limit) AS before),
       count(*), count(*) FILTER (WHERE tenant = :tenant),
       count(*) FILTER (WHERE tenant = :tenant AND destination IS :destination),
       EXISTS (SELECT 1 FROM destinations AS d WHERE d.tenant = :tenant AND d.destination IN (coalesce(:destination, ''), '')
               AND d.rate IS NOT NULL AND d.spent_until > :now - cast(round(1000000.0 / d.rate) AS integer))
FROM (SELECT tenant, destination FROM events
      WHERE lane = :lane AND unsettled > 0 AND ready IS NOT NULL AND ready > :now LIMIT :limit) AS running
