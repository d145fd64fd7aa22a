-- Keys that have fired: who takes them again, and what is remembered of them once their events are deleted.

-- fragment: freed_from
-- Whose key is taken: of an event that has fired, unless it stays fired by `once` and is remembered; and, by a debounced
-- call, also of one that has started, because what happens now is not part of that.
iif(status IN ('PENDING', 'PROCESSING'),
    given.quiet IS NOT NULL AND given.type = events.type
    AND NOT (status = 'PENDING' AND attempts = 0 AND unsettled = 0),
    NOT given.once OR coalesce(settled, claimed, events.due) <= :now - :memory)

-- name: put_again
-- Creates events under keys that other events have, and takes the keys from these. What cannot be taken, or was taken by
-- somebody else meanwhile, is not returned.
UPDATE events SET freed_key = events.key, key = NULL FROM {put_again rows}
WHERE events.tenant = given.tenant AND events.key = given.key AND events.key IS NOT NULL AND events.status <> 'CANCELLED'
  AND {freed_from};
DELETE FROM fired_keys WHERE EXISTS (
    SELECT 1 FROM {put_again rows}
    WHERE given.tenant = fired_keys.tenant AND given.key = fired_keys.key
      AND (NOT given.once OR fired_keys.fired <= :now - :memory)
);
INSERT INTO events ({put_again columns}, due, ready, created, first_asked)
SELECT {put_again columns}, coalesce(due, :now + delay), coalesce(due, :now + delay), :now, iif(quiet IS NULL, NULL, :now)
FROM {put_again rows}
WHERE {not_remembered} AND {not_withdrawn}
ON CONFLICT (tenant, key) WHERE key IS NOT NULL AND status <> 'CANCELLED' DO NOTHING
RETURNING {event}, 1 AS inserted

-- name: remembered (read)
-- Keys whose fired events were deleted.
SELECT {fired_key}, fired <= :now - :memory FROM fired_keys
WHERE (tenant, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))

-- fragment: letters
-- Dead letters whose keys later events have taken.
(SELECT e.id, e.tenant, e.freed_key AS key FROM json_each(:ids) AS wanted CROSS JOIN events AS e ON e.id = wanted.value
 WHERE +e.status = 'FAILED' AND e.freed_key IS NOT NULL) AS letters

-- fragment: kept
(SELECT 1 FROM events AS e
 WHERE e.tenant = letters.tenant AND e.key = letters.key AND e.key IS NOT NULL AND e.status <> 'CANCELLED'
   AND (e.status IN ('PENDING', 'PROCESSING') OR e.id IN (SELECT value FROM json_each(:ids))))

-- name: take_keys
-- Gives dead letters the keys back that later events have taken, unless such an event is open, or is given too. Returns
-- the dead letters for which that is not possible, each with the event that has its key. (Of several dead letters with one
-- key, only the latest can have it.)
UPDATE events SET freed_key = events.key, key = NULL FROM {letters}
WHERE events.tenant = letters.tenant AND events.key = letters.key AND events.key IS NOT NULL
  AND events.status <> 'CANCELLED' AND NOT EXISTS {kept};
DELETE FROM fired_keys WHERE EXISTS (
    SELECT 1 FROM {letters} WHERE letters.tenant = fired_keys.tenant AND letters.key = fired_keys.key
);
UPDATE events SET key = freed_key, freed_key = NULL
WHERE id IN (SELECT max(letters.id) FROM {letters} WHERE NOT EXISTS {kept} GROUP BY letters.tenant, letters.key);
SELECT letters.id, (
    SELECT e.id FROM events AS e WHERE e.tenant = letters.tenant AND e.key = letters.key AND e.key IS NOT NULL
    AND e.status <> 'CANCELLED'
) FROM {letters}

-- name: delete_ended
-- Deletes events that have ended, with their history. What has fired under a key leaves the key in `fired_keys`.
INSERT INTO fired_keys (tenant, key, id, type, due, executed, status, fired)
SELECT tenant, key, id, type, due, executed, status, coalesce(settled, claimed, due) FROM events
WHERE id IN (SELECT value FROM json_each(:ids)) AND +status IN ('COMPLETED', 'FAILED', 'SKIPPED') AND key IS NOT NULL
  AND NOT {forgotten}
ON CONFLICT (tenant, key) DO UPDATE
SET id = excluded.id, type = excluded.type, due = excluded.due, executed = excluded.executed,
    status = excluded.status, fired = excluded.fired;
DELETE FROM journal WHERE subject IN (
    SELECT e.id FROM json_each(:ids) AS given CROSS JOIN events AS e ON e.id = given.value
    WHERE +e.status NOT IN ('PENDING', 'PROCESSING')
);
DELETE FROM events WHERE id IN (SELECT value FROM json_each(:ids)) AND +status NOT IN ('PENDING', 'PROCESSING')
RETURNING id

-- name: forget_keys
-- Forgets the keys that have fired longest ago.
DELETE FROM fired_keys WHERE (tenant, key) IN (
    SELECT tenant, key FROM fired_keys WHERE fired <= :now - :memory ORDER BY fired LIMIT :limit
)
RETURNING id
