-- Stored targets, and the limits and state of destinations.

-- name: put_target
INSERT INTO duly.targets AS t ({put_target columns}, created, updated)
SELECT {put_target columns}, {now}, {now} FROM {put_target rows}
ON CONFLICT (tenant, name) DO UPDATE SET {put_target from excluded}, updated = excluded.updated
WHERE t.id = excluded.id
RETURNING id::text

-- name: lock_target
SELECT {t.target}, t.tenant, t.name, {d.known} FROM duly.targets AS t
LEFT JOIN duly.destinations AS d ON d.tenant = t.tenant AND d.destination = t.name
WHERE t.tenant = :tenant AND t.name = :target FOR UPDATE OF t

-- name: list_targets (read)
SELECT {t.target}, t.tenant, t.name, {d.known} FROM duly.targets AS t
LEFT JOIN duly.destinations AS d ON d.tenant = t.tenant AND d.destination = t.name
WHERE (:tenant::text IS NULL OR t.tenant = :tenant) AND (t.tenant, t.name) > (:after_tenant::text, :after_name::text)
ORDER BY t.tenant, t.name LIMIT :limit

-- name: delete_target
WITH known AS (DELETE FROM duly.destinations WHERE tenant = :tenant AND destination = :target)
DELETE FROM duly.targets WHERE tenant = :tenant AND name = :target RETURNING id::text

-- name: aimed_at (read)
-- Future events of a target: among the next :examine events of a lane, and among held events. There is no index of
-- destinations, because every event would pay for it, and this runs only when a target is deleted.
SELECT count(*) FROM (
    SELECT FROM (
        SELECT tenant, destination FROM duly.events WHERE lane = :lane AND unsettled = 0 AND ready IS NOT NULL
        ORDER BY ready LIMIT :examine
    ) AS soon WHERE tenant = :tenant AND destination = :destination
    UNION ALL
    SELECT FROM (
        SELECT tenant, destination FROM duly.events WHERE lane = :lane AND unsettled > 0 AND ready IS NOT NULL
        ORDER BY ready LIMIT :examine
    ) AS soon WHERE tenant = :tenant AND destination = :destination
    UNION ALL
    SELECT FROM duly.events
    WHERE tenant = :tenant AND destination = :destination AND held IS NOT NULL AND destination IS NOT NULL
) AS waiting

-- name: destinations (read)
-- Limits and state of destinations; for an origin, also whether one of its URLs is parked.
SELECT wanted.tenant, wanted.destination, {d.known}, {t.target},
       EXISTS (SELECT FROM duly.destinations AS u WHERE u.tenant = wanted.tenant AND u.parked IS NOT NULL
               AND u.destination >= wanted.destination || '/' AND u.destination < wanted.destination || '0')
FROM unnest(:tenant::text[], :destination::text[]) AS wanted (tenant, destination)
LEFT JOIN duly.destinations AS d ON d.tenant = wanted.tenant AND d.destination = wanted.destination
LEFT JOIN duly.targets AS t ON t.tenant = wanted.tenant AND t.name = wanted.destination

-- name: list_destinations (read)
-- Destinations that have limits or are parked.
SELECT d.tenant, d.destination, {d.known} FROM duly.destinations AS d
WHERE (:tenant::text IS NULL OR d.tenant = :tenant) AND (d.tenant, d.destination) > (:after_tenant::text, :after_name::text)
  AND (d.concurrency IS NOT NULL OR d.rate IS NOT NULL OR d.parked IS NOT NULL)
ORDER BY d.tenant, d.destination LIMIT :limit

-- name: held_for (read)
-- The number of events that wait for each destination; events that wait for a URL are stored under its origin.
SELECT wanted.tenant, wanted.parked,
       (SELECT count(*) FROM duly.events WHERE tenant = wanted.tenant AND destination = wanted.destination
        AND held IS NOT NULL AND destination IS NOT NULL AND held_for = wanted.parked)
FROM unnest(:tenant::text[], :parked::text[], :destination::text[]) AS wanted (tenant, parked, destination)

-- name: limit
INSERT INTO duly.destinations AS d (tenant, destination, concurrency, rate)
VALUES (:tenant, :destination, :concurrency::int, :rate::double precision)
ON CONFLICT (tenant, destination) DO UPDATE SET concurrency = excluded.concurrency, rate = excluded.rate
RETURNING d.destination

-- name: allow
-- A token bucket for each destination, which is full after a second, or as soon as it has one token. In whole
-- microseconds, as rates are read, so that no token comes early. (If the clock was set back, nobody waits for the
-- difference.)
WITH bucket AS MATERIALIZED (
    SELECT d.tenant, d.destination, each.apart, wanted.want,
           least({now}, greatest(coalesce(d.spent_until, {now} - each.apart * {us}),
                                 {now} - greatest(1000000, each.apart) * {us})) AS base
    FROM unnest(:tenant::text[], :destination::text[], :want::int[]) AS wanted (tenant, destination, want)
    JOIN duly.destinations AS d ON d.tenant = wanted.tenant AND d.destination = wanted.destination
    CROSS JOIN LATERAL (SELECT round(1000000 / d.rate)::bigint AS apart) AS each
    WHERE d.rate IS NOT NULL
    ORDER BY d.tenant, d.destination
    FOR UPDATE OF d
), granted AS (
    SELECT *, least(want, (extract(epoch FROM {now} - base) * 1000000)::bigint / apart)::int AS turns FROM bucket
)
UPDATE duly.destinations AS d SET spent_until = granted.base + granted.turns * granted.apart * {us}
FROM granted WHERE d.tenant = granted.tenant AND d.destination = granted.destination
RETURNING d.tenant, d.destination, granted.turns,
          (extract(epoch FROM d.spent_until + granted.apart * {us} - {now}) * 1000000)::bigint

-- name: park
-- Stops deliveries to a destination. If only a person may enable it, it stays so, even if a worker finds it down again.
INSERT INTO duly.destinations AS d (tenant, destination, parked, since, probe_at, probes)
VALUES (:tenant, :destination, :reason, {now}, {now} + :wait::bigint * {us}, 0)
ON CONFLICT (tenant, destination) DO UPDATE
SET parked = excluded.parked, since = coalesce(d.since, excluded.since), probe_at = excluded.probe_at, probes = 0
WHERE d.parked IS NULL OR (d.probe_at IS NOT NULL AND excluded.probe_at IS NULL)
RETURNING d.destination

-- name: unpark
UPDATE duly.destinations SET parked = NULL, probe_at = NULL, probes = 0
WHERE tenant = :tenant AND destination = :destination AND parked IS NOT NULL
RETURNING destination, since

-- name: reopen
-- Opens a destination that answers. If only a person may enable it, it stays parked: the delivery may have begun
-- before.
UPDATE duly.destinations SET parked = NULL, probe_at = NULL, probes = 0
WHERE tenant = :tenant AND destination = :destination AND parked IS NOT NULL AND probe_at IS NOT NULL
RETURNING destination, since

-- name: probe_now
UPDATE duly.destinations SET probe_at = {now}
WHERE tenant = :tenant AND destination = :destination AND parked IS NOT NULL AND probe_at IS NOT NULL
RETURNING destination

-- name: unparking (read)
-- Open destinations for which events may still be held, and parked destinations that are to be probed.
SELECT tenant, destination, parked IS NOT NULL FROM duly.destinations
WHERE since IS NOT NULL AND (parked IS NULL OR probe_at <= {now}) LIMIT 100

-- name: released
UPDATE duly.destinations SET since = NULL WHERE tenant = :tenant AND destination = :destination AND parked IS NULL
RETURNING destination

-- name: release_parked
WITH picked AS MATERIALIZED (
    SELECT id FROM duly.events
    WHERE tenant = :tenant AND destination = :destination AND held IS NOT NULL AND destination IS NOT NULL
      AND held_for = :held_for
    ORDER BY due LIMIT :limit FOR UPDATE
), e AS (
    UPDATE duly.events AS e SET held = NULL, hold_kind = NULL, held_for = NULL, ready = CASE WHEN attempts = 0 THEN due ELSE {now} END
    WHERE id = ANY (ARRAY(SELECT id FROM picked))
    RETURNING e.id, e.lane, e.version, e.ready
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version) SELECT id, {now}, 'released', :by, version FROM e
)
SELECT id::text, (SELECT count(pg_notify('duly', lane)::text)
                  FROM (SELECT DISTINCT lane FROM e WHERE ready <= {now} + :soon::bigint * {us}) AS soon) FROM e

-- name: due_probes
-- Each probe goes to one worker, and the wait until the next probe is doubled.
WITH picked AS MATERIALIZED (
    SELECT tenant, destination FROM duly.destinations
    WHERE since IS NOT NULL AND parked IS NOT NULL AND probe_at <= {now} LIMIT 20 FOR UPDATE SKIP LOCKED
)
UPDATE duly.destinations AS d
SET probes = d.probes + 1,
    probe_at = {now} + least(:most::bigint, :first::bigint * 2 ^ least(d.probes + 1, 20)) * {us}
FROM picked WHERE d.tenant = picked.tenant AND d.destination = picked.destination
RETURNING d.tenant, d.destination

-- name: claim_probe
-- Claims the oldest event that waits for a destination, as its probe.
WITH picked AS MATERIALIZED (
    SELECT id FROM duly.events
    WHERE tenant = :tenant AND destination = :destination AND held IS NOT NULL AND destination IS NOT NULL
      AND held_for = :destination AND lane = ANY (:lanes::text[]) AND due <= {now}
    ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE duly.events AS e
SET status = 'PROCESSING', version = version + 1, unsettled = unsettled + 1, worker = :worker, claimed = {now},
    held = NULL, hold_kind = NULL, held_for = NULL, ready = {now} + :lease::bigint * {us}
WHERE id = ANY (ARRAY(SELECT id FROM picked))
RETURNING {e.claimed}, NULL::text, (SELECT {micros})

-- name: is_awaited (read)
SELECT EXISTS (SELECT FROM duly.events
               WHERE tenant = :tenant AND destination = :destination AND held IS NOT NULL AND destination IS NOT NULL
                 AND held_for = :destination AND due <= {now})

-- name: is_retried_later (read)
-- Whether a due event of a destination waits for its next attempt, among the next :examine events of a lane. There is no
-- index of destinations: see aimed_at. It runs when a probe is due and nothing is held.
SELECT EXISTS (
    SELECT FROM (
        SELECT tenant, destination, due, head FROM duly.events WHERE lane = :lane AND unsettled = 0 AND ready IS NOT NULL
        ORDER BY ready LIMIT :examine
    ) AS soon WHERE tenant = :tenant AND destination = :destination AND NOT head AND due <= {now}
)

-- name: hold_claimed
-- Holds claimed events whose destination is parked. The row of the destination is locked in share mode: a worker that
-- ends the parking waits for this transaction, and then finds the held events. If the parking has already ended, the
-- events are given back. An event that was asked to stop is cancelled.
WITH {patience}, given AS MATERIALIZED (
    SELECT * FROM unnest(:id::uuid[], :version::int[], :tenant::text[], :destination::text[], :reason::text[])
      AS given (id, version, tenant, destination, reason)
), parked AS MATERIALIZED (
    SELECT d.tenant, d.destination FROM duly.destinations AS d
    WHERE (d.tenant, d.destination) IN (SELECT tenant, destination FROM given) AND d.parked IS NOT NULL
    ORDER BY d.tenant, d.destination
    FOR SHARE OF d
), e AS (
    UPDATE duly.events AS e
    SET status = CASE WHEN e.stop_requested IS NULL THEN 'PENDING' ELSE 'CANCELLED' END, unsettled = e.unsettled - 1,
        held = CASE WHEN e.stop_requested IS NULL AND parked.destination IS NOT NULL THEN given.reason END,
        hold_kind = CASE WHEN e.stop_requested IS NULL AND parked.destination IS NOT NULL THEN 'target' END,
        held_for = CASE WHEN e.stop_requested IS NULL THEN parked.destination END,
        ready = CASE WHEN e.stop_requested IS NOT NULL OR parked.destination IS NOT NULL THEN NULL WHEN e.attempts = 0 THEN e.due ELSE {now} END
    FROM given LEFT JOIN parked ON parked.tenant = given.tenant AND parked.destination = given.destination
    WHERE e.id = given.id AND e.version = given.version AND e.status = CASE WHEN given.id IS NOT NULL THEN 'PROCESSING' END
      AND (SELECT told FROM patience) IS NOT NULL
    RETURNING e.id, e.version, e.claimed, e.held, e.stop_requested IS NOT NULL AS stopped
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, claimed, detail)
    SELECT id, {now}, CASE WHEN stopped THEN 'cancelled' WHEN held IS NULL THEN 'given back' ELSE 'held' END, :worker,
           version, claimed, held
    FROM e
)
SELECT id::text, stopped FROM e
