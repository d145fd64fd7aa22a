-- Stored targets, and the limits and state of destinations.

-- name: put_target
INSERT INTO targets AS t ({put_target columns}, created, updated)
SELECT {put_target columns}, :now, :now FROM {put_target rows} WHERE true
ON CONFLICT (tenant, name) DO UPDATE SET {put_target from excluded}, updated = excluded.updated
WHERE t.id = excluded.id
RETURNING id

-- name: lock_target
SELECT {t.target}, t.tenant, t.name, {d.known} FROM targets AS t
LEFT JOIN destinations AS d ON d.tenant = t.tenant AND d.destination = t.name
WHERE t.tenant = :tenant AND t.name = :target

-- name: list_targets (read)
SELECT {t.target}, t.tenant, t.name, {d.known} FROM targets AS t
LEFT JOIN destinations AS d ON d.tenant = t.tenant AND d.destination = t.name
WHERE (:tenant IS NULL OR t.tenant = :tenant) AND (t.tenant, t.name) > (:after_tenant, :after_name)
ORDER BY t.tenant, t.name LIMIT :limit

-- name: delete_target
DELETE FROM destinations WHERE tenant = :tenant AND destination = :target;
DELETE FROM targets WHERE tenant = :tenant AND name = :target RETURNING id

-- name: aimed_at (read)
-- Future events of a target: among the next :examine events of a lane, and among held events. There is no index of
-- destinations, because every event would pay for it, and this runs only when a target is deleted.
SELECT count(*) FROM (
    SELECT 1 FROM (
        SELECT tenant, destination FROM events WHERE lane = :lane AND unsettled = 0 AND ready IS NOT NULL
        ORDER BY ready LIMIT :examine
    ) AS soon WHERE tenant = :tenant AND destination = :destination
    UNION ALL
    SELECT 1 FROM (
        SELECT tenant, destination FROM events WHERE lane = :lane AND unsettled > 0 AND ready IS NOT NULL
        ORDER BY ready LIMIT :examine
    ) AS soon WHERE tenant = :tenant AND destination = :destination
    UNION ALL
    SELECT 1 FROM events
    WHERE tenant = :tenant AND destination = :destination AND held IS NOT NULL AND destination IS NOT NULL
) AS waiting

-- name: destinations (read)
-- Limits and state of destinations; for an origin, also whether one of its URLs is parked.
SELECT value ->> 0, value ->> 1, {d.known}, {t.target},
       EXISTS (SELECT 1 FROM destinations AS u WHERE u.tenant = value ->> 0 AND u.parked IS NOT NULL
               AND u.destination >= value ->> 1 || '/' AND u.destination < value ->> 1 || '0') FROM json_each(:rows)
LEFT JOIN destinations AS d ON d.tenant = value ->> 0 AND d.destination = value ->> 1
LEFT JOIN targets AS t ON t.tenant = value ->> 0 AND t.name = value ->> 1

-- name: list_destinations (read)
-- Destinations that have limits or are parked.
SELECT d.tenant, d.destination, {d.known} FROM destinations AS d
WHERE (:tenant IS NULL OR d.tenant = :tenant) AND (d.tenant, d.destination) > (:after_tenant, :after_name)
  AND (d.concurrency IS NOT NULL OR d.rate IS NOT NULL OR d.parked IS NOT NULL)
ORDER BY d.tenant, d.destination LIMIT :limit

-- name: held_for (read)
-- The number of events that wait for each destination; events that wait for a URL are stored under its origin.
SELECT value ->> 0, value ->> 1,
       (SELECT count(*) FROM events WHERE tenant = value ->> 0 AND destination = value ->> 2 AND held IS NOT NULL
        AND destination IS NOT NULL AND held_for = value ->> 1) FROM json_each(:rows)

-- name: limit
INSERT INTO destinations AS d (tenant, destination, concurrency, rate) VALUES (:tenant, :destination, :concurrency, :rate)
ON CONFLICT (tenant, destination) DO UPDATE SET concurrency = excluded.concurrency, rate = excluded.rate
RETURNING destination

-- fragment: buckets
(SELECT tenant, destination, apart, want,
        min(:now, max(coalesce(spent_until, :now - apart), :now - max(1000000, apart))) AS base
 FROM (SELECT tenant, destination, spent_until, cast(round(1000000.0 / rate) AS integer) AS apart, value ->> 2 AS want
       FROM json_each(:rows) JOIN destinations ON tenant = value ->> 0 AND destination = value ->> 1
       WHERE rate IS NOT NULL))

-- fragment: granted
(SELECT tenant, destination, apart, base, min(want, (:now - base) / apart) AS turns FROM {buckets})

-- name: allow
-- A token bucket for each destination, which is full after a second, or as soon as it has one token. In whole
-- microseconds, as rates are read, so that no token comes early. (If the clock was set back, nobody waits for the
-- difference.)
SELECT tenant, destination, turns, base + (turns + 1) * apart - :now FROM {granted};
UPDATE destinations AS d SET spent_until = granted.base + granted.turns * granted.apart
FROM {granted} AS granted WHERE d.tenant = granted.tenant AND d.destination = granted.destination

-- name: park
-- Stops deliveries to a destination. If only a person may enable it, it stays so, even if a worker finds it down again.
INSERT INTO destinations AS d (tenant, destination, parked, since, probe_at, probes)
VALUES (:tenant, :destination, :reason, :now, :now + :wait, 0)
ON CONFLICT (tenant, destination) DO UPDATE
SET parked = excluded.parked, since = coalesce(d.since, excluded.since), probe_at = excluded.probe_at, probes = 0
WHERE d.parked IS NULL OR (d.probe_at IS NOT NULL AND excluded.probe_at IS NULL)
RETURNING destination

-- name: unpark
UPDATE destinations SET parked = NULL, probe_at = NULL, probes = 0
WHERE tenant = :tenant AND destination = :destination AND parked IS NOT NULL
RETURNING destination, since

-- name: reopen
-- Opens a destination that answers. If only a person may enable it, it stays parked: the delivery may have begun
-- before.
UPDATE destinations SET parked = NULL, probe_at = NULL, probes = 0
WHERE tenant = :tenant AND destination = :destination AND parked IS NOT NULL AND probe_at IS NOT NULL
RETURNING destination, since

-- name: probe_now
UPDATE destinations SET probe_at = :now
WHERE tenant = :tenant AND destination = :destination AND parked IS NOT NULL AND probe_at IS NOT NULL
RETURNING destination

-- name: unparking (read)
-- Open destinations for which events may still be held, and parked destinations that are to be probed.
SELECT tenant, destination, parked IS NOT NULL FROM destinations
WHERE since IS NOT NULL AND (parked IS NULL OR probe_at <= :now) LIMIT 100

-- name: released
UPDATE destinations SET since = NULL WHERE tenant = :tenant AND destination = :destination AND parked IS NULL
RETURNING destination

-- name: release_parked
INSERT INTO journal (subject, at, act, worker, version)
SELECT id, :now, 'released', :by, version FROM events
WHERE id IN (SELECT id FROM events WHERE tenant = :tenant AND destination = :destination AND held IS NOT NULL
             AND destination IS NOT NULL AND held_for = :held_for ORDER BY due, id LIMIT :limit);
UPDATE events SET held = NULL, hold_kind = NULL, held_for = NULL, ready = iif(attempts = 0, due, :now)
WHERE id IN (SELECT id FROM events WHERE tenant = :tenant AND destination = :destination AND held IS NOT NULL
             AND destination IS NOT NULL AND held_for = :held_for ORDER BY due, id LIMIT :limit)
RETURNING id

-- name: due_probes
-- Each probe goes to one worker, and the wait until the next probe is doubled.
UPDATE destinations
SET probes = probes + 1, probe_at = :now + min(:most, :first * (1 << min(probes + 1, 20)))
WHERE rowid IN (SELECT rowid FROM destinations WHERE since IS NOT NULL AND parked IS NOT NULL AND probe_at <= :now LIMIT 20)
RETURNING tenant, destination

-- name: claim_probe
-- Claims the oldest event that waits for a destination, as its probe.
UPDATE events
SET status = 'PROCESSING', version = version + 1, unsettled = unsettled + 1, worker = :worker, claimed = :now,
    held = NULL, hold_kind = NULL, held_for = NULL, ready = :now + :lease
WHERE id IN (SELECT id FROM events WHERE tenant = :tenant AND destination = :destination AND held IS NOT NULL
             AND destination IS NOT NULL AND held_for = :destination
             AND lane IN (SELECT value FROM json_each(:lanes)) AND due <= :now ORDER BY due, id LIMIT 1)
RETURNING {claimed}, :now

-- name: is_awaited (read)
SELECT EXISTS (SELECT 1 FROM events
               WHERE tenant = :tenant AND destination = :destination AND held IS NOT NULL AND destination IS NOT NULL
                 AND held_for = :destination AND due <= :now)

-- name: is_retried_later (read)
-- Whether a due event of a destination waits for its next attempt, among the next :examine events of a lane. There is no
-- index of destinations: see aimed_at. It runs when a probe is due and nothing is held.
SELECT EXISTS (
    SELECT 1 FROM (
        SELECT tenant, destination, due, head FROM events WHERE lane = :lane AND unsettled = 0 AND ready IS NOT NULL
        ORDER BY ready LIMIT :examine
    ) AS soon WHERE tenant = :tenant AND destination = :destination AND NOT head AND due <= :now
)

-- name: hold_claimed
-- Holds claimed events whose destination is parked. If the parking has already ended, the events are given back. An
-- event that was asked to stop is cancelled.
INSERT INTO journal (subject, at, act, worker, version, claimed, detail)
SELECT e.id, :now, CASE WHEN e.stop_requested IS NOT NULL THEN 'cancelled' WHEN d.parked IS NULL THEN 'given back' ELSE 'held' END,
       :worker, e.version, e.claimed,
       iif(d.parked IS NULL, NULL, value ->> 4)
FROM json_each(:rows) JOIN events AS e ON e.id = value ->> 0
LEFT JOIN destinations AS d ON d.tenant = value ->> 2 AND d.destination = value ->> 3
WHERE e.version = value ->> 1 AND e.status = 'PROCESSING';
UPDATE events
SET status = iif(stop_requested IS NULL, 'PENDING', 'CANCELLED'), unsettled = unsettled - 1,
    held = iif(given.parked IS NULL OR stop_requested IS NOT NULL, NULL, given.reason),
    hold_kind = iif(given.parked IS NULL OR stop_requested IS NOT NULL, NULL, 'target'),
    held_for = iif(given.parked IS NULL OR stop_requested IS NOT NULL, NULL, given.destination),
    ready = iif(given.parked IS NULL AND stop_requested IS NULL, iif(attempts = 0, due, :now), NULL)
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version, value ->> 3 AS destination, value ->> 4 AS reason, d.parked
      FROM json_each(:rows)
      LEFT JOIN destinations AS d ON d.tenant = value ->> 2 AND d.destination = value ->> 3) AS given
WHERE events.id = given.id AND events.version = given.version AND events.status = 'PROCESSING'
RETURNING id, stop_requested IS NOT NULL AS stopped
