-- Keys that have fired: who takes them again, and what is remembered of them once their events are deleted.

-- fragment: freed_from
-- Whose key is taken: of an event that has fired, unless it stays fired by `once` and is remembered; and, by a debounced
-- call, also of one that has started, because what happens now is not part of that.
CASE WHEN e.status IN ('PENDING', 'PROCESSING')
     THEN given.quiet IS NOT NULL AND given.type = e.type
          AND NOT (e.status = 'PENDING' AND e.attempts = 0 AND e.unsettled = 0)
     ELSE NOT given.once OR {forgotten} END

-- name: put_again
-- Creates events under keys that other events have, and takes the keys from these. What cannot be taken, or was taken by
-- somebody else meanwhile, is not returned. (The unique index decides. An event that was deleted since the statement began
-- has left no trace that this statement sees: so each one that has fired must still be there.)
WITH given AS MATERIALIZED (
    SELECT *, coalesce(due, {now} + delay * {us}) AS at FROM {put_again rows}
), before AS MATERIALIZED (
    SELECT e.id FROM given CROSS JOIN LATERAL (
        SELECT e.id FROM duly.events AS e
        WHERE e.tenant = given.tenant AND e.key = given.key AND e.key IS NOT NULL AND e.status <> 'CANCELLED'
          AND {freed_from}
        FOR UPDATE
    ) AS e
), freed AS (
    UPDATE duly.events AS e SET freed_key = key, key = NULL WHERE id = ANY (ARRAY(SELECT id FROM before)) RETURNING id
), forgotten AS (
    DELETE FROM duly.fired_keys WHERE ctid = ANY (ARRAY(
        SELECT f.place FROM given CROSS JOIN LATERAL (
            SELECT f.ctid AS place, f.fired FROM duly.fired_keys AS f
            WHERE f.tenant = given.tenant AND f.key = given.key OFFSET 0
        ) AS f
        WHERE NOT given.once OR f.fired <= {now} - :memory::bigint * {us}
    ))
    RETURNING id
), e AS (
    INSERT INTO duly.events AS old ({put_again columns}, due, ready, created, first_asked)
    SELECT {put_again columns}, at, at, {now}, CASE WHEN quiet IS NOT NULL THEN {now} END FROM given
    WHERE (SELECT count(*) FROM freed) + (SELECT count(*) FROM forgotten) >= 0 AND {not_withdrawn}
      AND {fired} = (SELECT count(*) FROM duly.events AS e
                     WHERE e.tenant = given.tenant AND e.key = given.key AND e.key IS NOT NULL AND e.status <> 'CANCELLED'
                       AND e.status NOT IN ('PENDING', 'PROCESSING') AND e.id IN (SELECT id FROM freed))
                    + (SELECT count(*) FROM duly.fired_keys AS f
                       WHERE f.tenant = given.tenant AND f.key = given.key AND f.id IN (SELECT id FROM forgotten))
    ON CONFLICT (tenant, key) WHERE key IS NOT NULL AND status <> 'CANCELLED' DO NOTHING
    RETURNING old.*
)
SELECT {e.event}, true AS inserted,
       (SELECT count(pg_notify('duly', lane)::text)
        FROM (SELECT DISTINCT lane FROM e WHERE ready <= {now} + :soon::bigint * {us}) AS soon)
FROM e

-- name: remembered (read)
-- Keys whose fired events were deleted.
SELECT {f.fired_key}, f.fired <= {now} - :memory::bigint * {us}
FROM unnest(:tenant::text[], :key::text[]) AS wanted (tenant, key)
CROSS JOIN LATERAL (
    SELECT * FROM duly.fired_keys AS f WHERE f.tenant = wanted.tenant AND f.key = wanted.key OFFSET 0
) AS f

-- name: take_keys
-- Gives dead letters the keys back that later events have taken, unless such an event is open, or is given too. Returns
-- the dead letters for which that is not possible, each with the event that has its key. (Of several dead letters with one
-- key, only the latest can have it.)
WITH letters AS MATERIALIZED (
    SELECT e.id, e.tenant, e.freed_key AS key FROM unnest(:ids::uuid[]) AS given (id)
    JOIN duly.events AS e ON e.id = given.id
    WHERE e.status = CASE WHEN given.id IS NOT NULL THEN 'FAILED' END
      AND (e.freed_key IS NOT NULL) = (given.id IS NOT NULL)
    ORDER BY e.id FOR UPDATE OF e
), holders AS MATERIALIZED (
    SELECT e.id, e.status IN ('PENDING', 'PROCESSING') OR e.id = ANY (:ids::uuid[]) AS keeps, e.tenant, e.key
    FROM (SELECT DISTINCT tenant, key FROM letters) AS letters CROSS JOIN LATERAL (
        SELECT * FROM duly.events AS e
        WHERE e.tenant = letters.tenant AND e.key = letters.key AND e.key IS NOT NULL AND e.status <> 'CANCELLED'
        FOR UPDATE
    ) AS e
), latest AS MATERIALIZED (
    SELECT DISTINCT ON (tenant, key) id, tenant, key FROM letters
    WHERE (tenant, key) NOT IN (SELECT tenant, key FROM holders WHERE keeps) ORDER BY tenant, key, id DESC
), freed AS (
    UPDATE duly.events AS e SET freed_key = key, key = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM holders WHERE NOT keeps)) RETURNING id
), forgotten AS (
    DELETE FROM duly.fired_keys WHERE ctid = ANY (ARRAY(
        SELECT f.place FROM latest CROSS JOIN LATERAL (
            SELECT f.ctid AS place FROM duly.fired_keys AS f
            WHERE f.tenant = latest.tenant AND f.key = latest.key OFFSET 0
        ) AS f
    ))
    RETURNING id
), taken AS (
    UPDATE duly.events AS e SET key = freed_key, freed_key = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM latest)) AND (SELECT count(*) FROM freed) + (SELECT count(*) FROM forgotten) >= 0
    RETURNING id
)
SELECT letters.id::text, coalesce(holders.id, latest.id)::text
FROM letters LEFT JOIN holders ON holders.keeps AND (holders.tenant, holders.key) = (letters.tenant, letters.key)
LEFT JOIN latest ON (latest.tenant, latest.key) = (letters.tenant, letters.key)
WHERE letters.id NOT IN (SELECT id FROM taken)

-- name: delete_ended
-- Deletes events that have ended, with their history. What has fired under a key leaves the key in `fired_keys`, in the
-- same transaction: for those who put it meanwhile, it is in one of the two tables at every moment. (Locked events are
-- left to the next call.)
WITH e AS MATERIALIZED (
    SELECT e.* FROM unnest(:ids::uuid[]) AS given (id) JOIN duly.events AS e ON e.id = given.id
    WHERE e.status NOT IN ('PENDING', 'PROCESSING') AND given.id IS NOT NULL
    FOR UPDATE OF e SKIP LOCKED
), remembered AS (
    INSERT INTO duly.fired_keys (tenant, key, id, type, due, executed, status, fired)
    SELECT tenant, key, id, type, due, executed, status, coalesce(settled, claimed, due) FROM e
    WHERE key IS NOT NULL AND status <> 'CANCELLED' AND NOT {forgotten}
    ON CONFLICT (tenant, key) DO UPDATE
    SET id = excluded.id, type = excluded.type, due = excluded.due, executed = excluded.executed,
        status = excluded.status, fired = excluded.fired
), told AS (
    DELETE FROM duly.journal WHERE subject = ANY (ARRAY(SELECT id FROM e))
), gone AS (
    DELETE FROM duly.events WHERE id = ANY (ARRAY(SELECT id FROM e)) RETURNING id
)
SELECT id::text FROM gone

-- name: forget_keys
-- Forgets the keys that have fired longest ago. (A locked row is being taken by somebody.)
DELETE FROM duly.fired_keys WHERE (tenant, key) IN (
    SELECT tenant, key FROM duly.fired_keys WHERE fired <= {now} - :memory::bigint * {us}
    ORDER BY fired LIMIT :limit FOR UPDATE SKIP LOCKED
)
RETURNING id::text
