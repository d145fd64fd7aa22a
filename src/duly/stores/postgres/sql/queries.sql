-- Named queries; `:name` is a parameter and `{name}` a fragment. The names are the same in both dialects.
-- No query lists the columns of a record: see columns/lists.py for `{event}`, `{put rows}` and the like.

-- fragment: now
coalesce(:now::timestamptz, statement_timestamp())
-- (clock_timestamp() would be evaluated for each row and defeat the index.)

-- fragment: as_of
least({now}, :as_of::timestamptz)
-- (Events that became ready after :as_of are left to others; without it, all events that are ready now are taken.)

-- fragment: us
interval '1 microsecond'
-- (Spans are sent as microseconds: an interval of days would be added by the calendar of the session's time zone.)

-- fragment: micros
(extract(epoch FROM {now}) * 1000000)::bigint

-- fragment: clock
(extract(epoch FROM coalesce(:now::timestamptz, clock_timestamp())) * 1000000)::bigint

-- fragment: iso
'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'

-- fragment: shown
-- (LIMIT: so that each head is looked up in the index. Before the row-level policy of a table is applied, PostgreSQL
-- does not use an index with functions that are not leakproof, such as `||`: with a plain join, the heads of all
-- tenants would be read.)
SELECT {s.schedule}, head.due, head.held, head.hold_kind, last.claimed, last.status
FROM duly.schedules AS s
LEFT JOIN LATERAL (
    SELECT due, held, hold_kind FROM duly.events WHERE series = 'schedule:' || s.id AND head LIMIT 1
) AS head ON true
LEFT JOIN LATERAL (
    SELECT claimed, status FROM duly.events WHERE series = 'schedule:' || s.id AND rule IS NULL AND claimed IS NOT NULL
    AND NOT head AND status <> 'SKIPPED' ORDER BY id DESC LIMIT 1
) AS last ON true

-- name: now (read)
-- In microseconds: a caller's connection may have a codec for instants, but a number is never converted.
SELECT (extract(epoch FROM {now}) * 1000000)::bigint

-- name: try_writing
-- Creates a file that vanishes with the transaction: a new file needs disk space, while a new row may fit into an
-- existing page.
CREATE TEMPORARY TABLE duly_try_writing ON COMMIT DROP AS SELECT 1

-- name: add
-- Notifies sleeping workers of events that become ready before their next poll, once for each lane.
WITH given AS MATERIALIZED (
    SELECT *, coalesce(due, {now} + delay * {us}) AS at FROM {add rows}
), written AS (
    INSERT INTO duly.events ({add columns}, due, ready, created) SELECT {add columns}, at, at, {now} FROM given
)
SELECT count(pg_notify('duly', lane)::text)
FROM (SELECT DISTINCT lane FROM given WHERE at <= {now} + :soon::bigint * {us}) AS soon

-- name: notify
SELECT count(pg_notify('duly', lane)::text) FROM unnest(:lanes::text[]) AS soon (lane)

-- name: copying (read)
-- The clock, and whether this role may not use COPY on these tables: with row-level security, only their owner may.
SELECT {micros}, row_security_active('duly.events') OR row_security_active('duly.users')

-- fragment: not_withdrawn
-- (Nor is a request carried out that is not newer than the existing event, which somebody may be about to cancel.)
(asked IS NULL
 OR NOT EXISTS (
     SELECT FROM duly.events AS gone
     WHERE gone.tenant = given.tenant AND gone.key = given.key AND gone.status = 'CANCELLED'
       AND gone.asked >= given.asked
 ) AND NOT EXISTS (
     SELECT FROM duly.events AS there
     WHERE there.tenant = given.tenant AND there.key = given.key AND there.key IS NOT NULL
       AND there.status <> 'CANCELLED' AND there.asked >= given.asked
 ))

-- fragment: fired
-- How many events have fired under the given key, or are remembered. (Not NOT EXISTS: the planner might turn that into a
-- join with the whole table.)
(SELECT count(*) FROM duly.events AS fired
 WHERE fired.tenant = given.tenant AND fired.key = given.key AND fired.key IS NOT NULL AND fired.status <> 'CANCELLED'
   AND fired.status NOT IN ('PENDING', 'PROCESSING'))
+ (SELECT count(*) FROM duly.fired_keys AS fired WHERE fired.tenant = given.tenant AND fired.key = given.key)

-- fragment: closed
-- Whether a request over HTTP would put a timer in place of a command that code has scheduled.
(old.lane = 'command' AND old.via IS NULL AND excluded.via IS NOT NULL)

-- fragment: debounced
-- The due time of an event that is put again: with `quiet`, so long after now, at most `max_wait` after the first call.
CASE WHEN excluded.quiet IS NULL THEN excluded.due
     ELSE least({now} + excluded.quiet * {us}, coalesce(old.first_asked, {now}) + excluded.max_wait * {us}) END

-- name: put
-- An event of another type and one that has started or ended are left alone, and so is one that would not change: none of
-- them is returned. Of requests with an `asked` position, an older one changes nothing, and a newer one is recorded even
-- if its content is the same; one that is not newer than a cancelled event does not create it again. Under a key that has
-- fired, nothing is put: `put_again` decides about that. (The unique index alone would not do: the event may be deleted at
-- this moment.)
WITH given AS MATERIALIZED (
    SELECT *, coalesce(due, {now} + delay * {us}) AS at FROM {put rows}
), before AS MATERIALIZED (
    -- (A debounced call writes no history: the event itself has the first call and the last.)
    -- Locked, so that the old value in the history is the one that was replaced, even if somebody else puts the same
    -- key. (Looked up one by one, here and below: for an empty table, all indexes look equally good to the planner, and
    -- a full scan looks best. The plan is cached, and the table does not stay empty.)
    SELECT e.id, e.due, ({e.moved}, e.due) IS DISTINCT FROM ({given.moved}, given.at) AS changes
    FROM given CROSS JOIN LATERAL (
        SELECT * FROM duly.events AS e
        WHERE e.tenant = given.tenant AND e.key = given.key AND e.key IS NOT NULL AND e.status <> 'CANCELLED'
        FOR UPDATE
    ) AS e
), e AS (
    INSERT INTO duly.events AS old ({put columns}, due, ready, created, first_asked)
    SELECT {put columns}, at, at, {now}, CASE WHEN quiet IS NOT NULL THEN {now} END FROM given
    WHERE (SELECT count(*) FROM before) >= 0 AND (key IS NULL OR {fired} = 0) AND {not_withdrawn}
    ON CONFLICT (tenant, key) WHERE key IS NOT NULL AND status <> 'CANCELLED' DO UPDATE
    SET {put from excluded}, due = {debounced}, ready = {debounced}, held = NULL, hold_kind = NULL, held_for = NULL,
        asked = coalesce(excluded.asked, old.asked),
        first_asked = CASE WHEN excluded.quiet IS NOT NULL THEN coalesce(old.first_asked, excluded.first_asked) END
    WHERE old.status = 'PENDING' AND old.attempts = 0 AND old.unsettled = 0 AND old.type = excluded.type AND NOT {closed}
      AND (excluded.asked <= old.asked) IS NOT TRUE
      AND (excluded.asked IS NOT NULL
           OR ({old.moved}, old.due, old.via) IS DISTINCT FROM ({excluded.moved}, {debounced}, excluded.via))
    RETURNING old.*, old.xmax = 0 AS inserted
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT e.id, {now}, 'moved', :by, e.version, concat('due ', coalesce(to_char(before.due AT TIME ZONE 'UTC', {iso}), '?'), ' → ', to_char(e.due AT TIME ZONE 'UTC', {iso}))
    FROM e LEFT JOIN before USING (id) WHERE NOT inserted AND e.quiet IS NULL AND before.changes IS NOT FALSE
)
SELECT {e.event}, inserted,
       (SELECT count(pg_notify('duly', lane)::text)
        FROM (SELECT DISTINCT lane FROM e WHERE ready <= {now} + :soon::bigint * {us}) AS soon)
FROM e

-- fragment: forgotten
-- Whether a key that has fired is no longer remembered.
coalesce(e.settled, e.claimed, e.due) <= {now} - :memory::bigint * {us}

-- name: by_keys (read)
SELECT {e.event}, {forgotten}
FROM unnest(:tenant::text[], :key::text[]) AS wanted (tenant, key)
CROSS JOIN LATERAL (
    SELECT * FROM duly.events AS e
    WHERE e.tenant = wanted.tenant AND e.key = wanted.key AND e.key IS NOT NULL AND e.status <> 'CANCELLED'
    OFFSET 0
) AS e

-- name: withdrawn (read)
-- Events that were cancelled after these requests.
SELECT {e.event}
FROM unnest(:tenant::text[], :key::text[], :asked::bigint[]) AS wanted (tenant, key, asked)
CROSS JOIN LATERAL (
    SELECT * FROM duly.events AS e
    WHERE e.tenant = wanted.tenant AND e.key = wanted.key AND e.asked >= wanted.asked AND e.status = 'CANCELLED'
    OFFSET 0
) AS e

-- name: by_key (read)
-- The open event of a key, or else its latest. (Three lookups, each with its index: the one that has the key, the latest
-- that was cancelled, and the latest whose key was taken. Ids sort by their time of creation.)
SELECT {e.event} FROM (
    (SELECT * FROM duly.events WHERE tenant = :tenant AND key = :key AND key IS NOT NULL AND status <> 'CANCELLED')
    UNION ALL
    (SELECT * FROM duly.events WHERE tenant = :tenant AND key = :key AND key IS NOT NULL AND status = 'CANCELLED'
     ORDER BY id DESC LIMIT 1)
    UNION ALL
    (SELECT * FROM duly.events WHERE tenant = :tenant AND freed_key = :key AND freed_key IS NOT NULL
     ORDER BY id DESC LIMIT 1)
) AS e ORDER BY status IN ('PENDING', 'PROCESSING') DESC, id DESC LIMIT 1

-- fragment: careful
-- Whether an event is a head about which something has to be decided. Any other head carries its successor: it fires as
-- it is, and its successor is planted from its own row. (The planner answers EXISTS either for each row or from a hash of
-- the whole table, as it was small when the statement was prepared. A scalar subquery runs for each row.)
events.head AND (events.next_state = 'known' AND greatest({now}, events.due) < events.ordinary_until
                 AND events.next_data = ANY (:editions::text[])
                 AND (SELECT there.id FROM duly.events AS there
                      WHERE there.series = events.series AND there.occurrence = events.next_occurrence) IS NULL) IS NOT TRUE

-- fragment: judged
-- (The columns that `careful` needs. It is evaluated outside of the query that locks: many claims at once step over rows
-- that others have locked, and would evaluate it for each of these.)
id, head, due, series, next_state, next_occurrence, next_data, ordinary_until

-- fragment: successor
-- The id of a successor sorts by its time of creation, like every other id; its random part is that of the head.
((SELECT duly.id_begins()) || right(e.id::text, 17))::uuid

-- fragment: planting
-- Inserts the successors of claimed heads. (From the rows that the claim has updated: the old head must have ceased to be
-- the head before the new one is inserted.)
planted AS (
    INSERT INTO duly.events ({succeed columns}, id, head, occurrence, scheduled, due, ready, created)
    SELECT {succeed columns}, successor, true, next_occurrence, next_scheduled, next_due, next_due, {now}
    FROM taken WHERE successor IS NOT NULL
)

-- fragment: take
-- Claims the picked events. Heads to decide about are only reserved: until the lease ends, no other worker takes them.
-- (Timers apart from heads: without the columns that only heads need, claiming one costs the server a sixth less. They
-- are selected by their ids alone, so that no wrong estimate of their number can turn the update into a scan.)
timers AS (
    UPDATE duly.events AS e
    SET status = 'PROCESSING', version = version + 1, unsettled = 1, worker = :worker, claimed = {now},
        ready = {now} + :lease::bigint * {us}
    WHERE id = ANY (ARRAY(SELECT id FROM picked WHERE NOT head))
    RETURNING {e.claimed}
), taken AS (
    UPDATE duly.events AS e
    SET status = CASE WHEN careful THEN 'PENDING' ELSE 'PROCESSING' END, version = version + 1,
        unsettled = CASE WHEN careful THEN 0 ELSE 1 END, worker = :worker,
        claimed = CASE WHEN careful THEN claimed ELSE {now} END, ready = {now} + :lease::bigint * {us}, head = careful,
        next_state = CASE WHEN careful THEN next_state ELSE 'planted' END
    FROM picked WHERE picked.head AND e.id = picked.id
    RETURNING e.*, CASE WHEN NOT careful THEN {successor} END AS successor
),
{planting}, claims AS (
    SELECT timers.*, NULL::text AS successor FROM timers
    UNION ALL
    SELECT {e.claimed}, e.successor::text FROM taken AS e
)
SELECT claims.*, (SELECT {micros})
-- Instants that are the same for all rows are not returned with each row: a driver takes 1 µs to read one.

-- fragment: oldest
-- Oldest first in each lane, starting where the last claim ended: while somebody holds a transaction open, the index
-- still has the entries of all events that were claimed since.
WITH picked AS MATERIALIZED (
    SELECT events.id, events.head, {careful} AS careful
    FROM unnest(:lane::text[], :free::int[], :since::timestamptz[]) AS room (lane, free, since)
    CROSS JOIN LATERAL (
        SELECT {judged} FROM duly.events
        WHERE lane = room.lane AND unsettled = 0 AND ready <= {as_of} AND ready >= coalesce(room.since, '-infinity')
        ORDER BY ready
        LIMIT room.free
        FOR UPDATE SKIP LOCKED
    ) AS events
)

-- name: claim
{oldest},
{take}
FROM claims

-- name: claim_with_horizon
-- Also returns when the next events of these lanes become ready, as the `horizon` does, so that a worker needs no second
-- query for that. An event that is ready now is claimed here or by somebody else, or is more than the worker can take.
-- (The subqueries depend on no row, so each of them runs once. They do not see the successors that this statement plants.)
{oldest},
{take},
(SELECT (extract(epoch FROM least(min((
    SELECT ready FROM duly.events WHERE lane = wanted.lane AND unsettled = 0 AND ready > {now}
    ORDER BY ready LIMIT 1)), (SELECT min(next_due) FROM taken WHERE successor IS NOT NULL))) * 1000000)::bigint
 FROM unnest(:lane::text[]) AS wanted (lane)),
(SELECT (extract(epoch FROM min((
    SELECT ready FROM duly.events WHERE lane = wanted.lane AND unsettled > 0 AND ready IS NOT NULL
    AND ready >= coalesce(:leased::timestamptz, '-infinity') ORDER BY ready LIMIT 1))) * 1000000)::bigint
 FROM unnest(:lane::text[]) AS wanted (lane))
FROM claims

-- name: claim_these
-- The events that can still be claimed, in the given order. (The first comparison is with an expression over the given
-- ids, so that the planner does not use an index of ready events to find them.)
WITH picked AS MATERIALIZED (
    SELECT events.id, events.head, {careful} AS careful FROM (
        SELECT {judged} FROM unnest(:ids::uuid[]) WITH ORDINALITY AS wanted (wanted, nth)
        JOIN duly.events ON events.id = wanted
        WHERE events.unsettled = CASE WHEN wanted IS NOT NULL THEN 0 END AND events.ready <= {as_of}
          AND events.lane = ANY (:lanes::text[])
        ORDER BY nth
        LIMIT :free
        FOR UPDATE OF events SKIP LOCKED
    ) AS events
),
{take}
FROM claims

-- fragment: others
(tenant, coalesce(destination, '')) NOT IN (SELECT * FROM unnest(:tenant::text[], :destination::text[])) AS other

-- fragment: looked
array_agg(id::text) FILTER (WHERE other) AS ids, array_agg(tenant) FILTER (WHERE other) AS tenants,
array_agg(destination) FILTER (WHERE other) AS destinations, array_agg(ready) FILTER (WHERE other) AS instants,
count(*) FILTER (WHERE oldest) AS examined

-- name: scan_backlog (read)
-- Ready events of tenants and destinations that are not known yet: among the oldest of each lane, and among the newest,
-- because events of a quiet tenant have mostly just become due. There is no index of tenants, because every event would
-- pay for it; so this query reads through a flood up to the given depth, and returns how far it came. The result has
-- one row for each lane, because arrays are read quickly.
SELECT room.lane, ids[1 : :many], tenants[1 : :many], destinations[1 : :many], instants[1 : :many], examined
FROM unnest(:lane::text[], :depth::int[], :since::timestamptz[]) AS room (lane, depth, since)
CROSS JOIN LATERAL (
    SELECT {looked}
    FROM (
        (SELECT id, tenant, destination, ready, false AS oldest, {others} FROM duly.events
         WHERE lane = room.lane AND unsettled = 0 AND ready <= {now} ORDER BY ready DESC LIMIT :near)
        UNION ALL
        (SELECT id, tenant, destination, ready, true, {others} FROM duly.events
         WHERE lane = room.lane AND unsettled = 0 AND ready <= {now}
           AND ready >= coalesce(room.since, '-infinity') ORDER BY ready LIMIT room.depth)
    ) AS windows
) AS found

-- name: reserve
-- Reserves events that are due in a moment, for a worker that will start each at its instant. None is started yet, so
-- only the version changes, and the time until which no other worker may take the event.
WITH picked AS MATERIALIZED (
    SELECT found.id
    FROM unnest(:lane::text[], :free::int[]) AS room (lane, free)
    CROSS JOIN LATERAL (
        SELECT id FROM duly.events
        WHERE lane = room.lane AND unsettled = 0 AND ready > {now} AND ready <= {now} + :ahead::bigint * {us}
        ORDER BY ready
        LIMIT room.free
        FOR UPDATE SKIP LOCKED
    ) AS found
)
UPDATE duly.events AS e
SET version = version + 1, worker = :worker, ready = ready + :patience::bigint * {us}
WHERE id = ANY (ARRAY(SELECT id FROM picked))
RETURNING e.id::text, e.version, e.lane, e.head, e.ready, {clock}
-- (The rows are selected by their ids alone, so that no wrong estimate of their number can turn the update into a scan.)

-- name: start
-- Starts reserved events that were not cancelled, moved or taken since; unless the clock was set back and they are not
-- due in a moment. An event that somebody has locked is left to the next claim after its reservation. Heads to decide
-- about are left as they are. The reservation is on disk and already fences off other workers, so this does not wait for
-- the disk: if the server loses the start in a crash, the reservation is there again, and `start_again` restores the start
-- when the event is settled.
WITH at_once AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS done), picked AS MATERIALIZED (
    SELECT events.id, {careful} AS careful
    FROM unnest(:id::uuid[], :version::int[], :until::timestamptz[]) AS mine (id, version, until)
    JOIN duly.events ON events.id = mine.id AND events.version = mine.version AND events.ready = mine.until
    WHERE events.unsettled = 0 AND mine.until <= {now} + :ending_within::bigint * {us}
      AND (SELECT done FROM at_once) = 'off'
    FOR UPDATE OF events SKIP LOCKED
), taken AS (
    UPDATE duly.events AS e
    SET status = 'PROCESSING', unsettled = 1, claimed = {now}, ready = {now} + :lease::bigint * {us}, head = false,
        next_state = CASE WHEN head THEN 'planted' END
    FROM picked WHERE e.id = picked.id AND NOT picked.careful
    RETURNING e.*, CASE WHEN e.next_state IS NOT NULL THEN {successor} END AS successor
),
{planting}
SELECT {e.claimed}, e.successor::text, (SELECT {micros}), {clock}
FROM taken AS e

-- name: start_again
-- Restores starts that the server has lost in a crash: the event is as its reservation left it, and a head gets its
-- successor again. (An event that was settled, changed or held since has a journal entry with this version, and one that
-- was claimed by others since has another version. Here and below, entries are counted for each row: the planner might
-- turn NOT EXISTS into a join with the whole journal.)
WITH picked AS MATERIALIZED (
    SELECT events.id, mine.claimed
    FROM unnest(:id::uuid[], :version::int[], :claimed::timestamptz[]) AS mine (id, version, claimed)
    JOIN duly.events ON events.id = mine.id AND events.version = mine.version
    WHERE events.status = CASE WHEN mine.id IS NOT NULL THEN 'PENDING' END
      AND events.unsettled = CASE WHEN mine.id IS NOT NULL THEN 0 END AND events.worker = :worker
      AND (SELECT count(*) FROM duly.journal AS j WHERE j.subject = events.id AND j.version = events.version) = 0
      AND NOT (events.head AND (events.next_state = 'known' AND (
          SELECT there.id FROM duly.events AS there
          WHERE there.series = events.series AND there.occurrence = events.next_occurrence
      ) IS NULL) IS NOT TRUE)
    FOR UPDATE OF events SKIP LOCKED
), taken AS (
    UPDATE duly.events AS e
    SET status = 'PROCESSING', unsettled = 1, claimed = picked.claimed, head = false,
        next_state = CASE WHEN head THEN 'planted' END
    FROM picked WHERE e.id = picked.id
    RETURNING e.*, CASE WHEN e.next_state IS NOT NULL THEN {successor} END AS successor
),
{planting}
SELECT e.id::text FROM taken AS e

-- name: note_forgotten
-- Records claims that neither the event nor the journal has, and that can no longer be settled: the next delivery will
-- look like a duplicate.
INSERT INTO duly.journal (subject, at, act, worker, version, claimed, detail)
SELECT e.id, {now}, 'forgotten', :worker, mine.version, mine.claimed, mine.detail
FROM unnest(:id::uuid[], :version::int[], :claimed::timestamptz[], :detail::text[]) AS mine (id, version, claimed, detail)
JOIN duly.events AS e ON e.id = mine.id
WHERE mine.version <= e.version AND (e.version, e.claimed) IS DISTINCT FROM (mine.version, mine.claimed)
  AND (SELECT count(*) FROM duly.journal AS j
       WHERE j.subject = mine.id AND j.version = mine.version AND j.claimed IS NOT NULL) = 0
RETURNING subject::text

-- fragment: patience
-- How long the transaction may wait for a row that somebody else has locked; without :lock_timeout, as long as usual. (A
-- subquery that depends on no row runs before the rows are looked up.)
patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', coalesce(:lock_timeout, current_setting('lock_timeout')), true) AS told
)

-- name: release
-- (A head that was found late was reserved from that moment on: it is ready when it is due. This waits for locks: a head
-- that was locked for a moment, as by a dry run, would be ready only when its reservation ends.)
WITH {patience}, picked AS MATERIALIZED (
    SELECT e.id FROM unnest(:id::uuid[], :version::int[], :until::timestamptz[]) AS mine (id, version, until)
    JOIN duly.events AS e ON e.id = mine.id AND e.version = mine.version AND e.ready = mine.until
    WHERE e.unsettled = 0 AND (SELECT told FROM patience) IS NOT NULL
    FOR UPDATE OF e
)
UPDATE duly.events AS e SET ready = CASE WHEN e.head THEN e.due ELSE e.ready - :patience::bigint * {us} END
WHERE e.id = ANY (ARRAY(SELECT id FROM picked))
RETURNING e.lane, (SELECT count(pg_notify('duly', lane)::text) FROM unnest(:lanes::text[]) AS told (lane))

-- name: claim_interrupted
-- An expired lease: its worker vanished. After five interruptions, the event itself is considered the cause, and fails.
-- An event that was asked to stop is cancelled.
WITH picked AS MATERIALIZED (
    SELECT id, status, worker, claimed, version, unsettled, stop_requested IS NOT NULL AS stopped,
           status = 'PROCESSING' AS interrupted,
           status = 'PROCESSING' AND unsettled >= :most AND stop_requested IS NULL AS spent
    FROM duly.events
    WHERE lane = ANY (:lanes::text[]) AND unsettled > 0 AND ready <= {as_of}
    ORDER BY ready
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, claimed, detail)
    SELECT id, {now}, 'interrupted', worker, version, claimed, 'its worker vanished and the lease expired'
    FROM picked WHERE interrupted
    UNION ALL
    SELECT id, {now}, 'failed', :worker, version + 1, NULL, :error FROM picked WHERE spent
    UNION ALL
    SELECT id, {now}, 'cancelled', :worker, version + 1, NULL, :stopped FROM picked WHERE stopped
)
UPDATE duly.events AS e
SET status = CASE WHEN stopped THEN 'CANCELLED' WHEN spent THEN 'FAILED' ELSE 'PROCESSING' END,
    ready = CASE WHEN stopped OR spent THEN NULL ELSE {now} + :lease::bigint * {us} END,
    last_error = CASE WHEN spent THEN :error ELSE e.last_error END,
    unsettled = e.unsettled + CASE WHEN stopped OR spent THEN 0 ELSE 1 END,
    version = e.version + 1, worker = :worker, claimed = {now}
FROM picked WHERE e.id = picked.id
RETURNING {e.event}, picked.interrupted, picked.worker, picked.claimed

-- name: has_interrupted
-- An expired lease of an event that nobody has locked.
SELECT id::text FROM duly.events WHERE lane = ANY (:lanes::text[]) AND unsettled > 0 AND ready <= {now}
ORDER BY ready LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: horizon (read)
-- If the known frontier of a lane is later than now, all of its ready events are known already: then the next event that
-- will become ready is returned.
SELECT {now},
       min((SELECT ready FROM duly.events WHERE lane = wanted.lane AND unsettled = 0 AND ready IS NOT NULL
            AND ready >= least(coalesce(wanted.since, '-infinity'), {now}) ORDER BY ready LIMIT 1)),
       min((SELECT ready FROM duly.events WHERE lane = wanted.lane AND unsettled > 0 AND ready IS NOT NULL
            AND ready >= coalesce(:leased::timestamptz, '-infinity') ORDER BY ready LIMIT 1))
FROM unnest(:lane::text[], :since::timestamptz[]) AS wanted (lane, since)

-- name: renew
-- An event that somebody has locked is returned as such, and not renewed: the others must not wait for it.
-- (Here and below, the status is compared with an expression over the given rows. Compared with a constant, the planner
-- would look it up in its statistics, find that hardly any event is claimed, and begin with a scan for claimed events.)
WITH held AS MATERIALIZED (
    SELECT * FROM unnest(:id::uuid[], :version::int[]) AS held (id, version)
), unlocked AS MATERIALIZED (
    SELECT e.id FROM held JOIN duly.events AS e ON e.id = held.id AND e.version = held.version
    WHERE e.status = CASE WHEN held.id IS NOT NULL THEN 'PROCESSING' END
    FOR UPDATE OF e SKIP LOCKED
), renewed AS (
    UPDATE duly.events AS e SET ready = {now} + :lease::bigint * {us} WHERE e.id = ANY (ARRAY(SELECT id FROM unlocked))
)
SELECT e.id::text, e.id <> ALL (ARRAY(SELECT id FROM unlocked)) AS locked
FROM held JOIN duly.events AS e ON e.id = held.id AND e.version = held.version
WHERE e.status = CASE WHEN held.id IS NOT NULL THEN 'PROCESSING' END

-- name: unlocked
-- Locks those of the given events that nobody else has locked.
WITH {patience}
SELECT id::text FROM duly.events WHERE id = ANY (:ids::uuid[]) AND (SELECT told FROM patience) IS NOT NULL
ORDER BY id FOR UPDATE SKIP LOCKED

-- name: stop_requests (read)
SELECT id::text FROM duly.events WHERE worker = :worker AND stop_requested IS NOT NULL AND status = 'PROCESSING'

-- name: request_stop
-- Asks a running event to stop, and wakes the workers of its lane.
WITH e AS (
    UPDATE duly.events AS e SET stop_requested = coalesce(e.stop_requested, {now})
    WHERE id = :id::uuid AND status = 'PROCESSING'
    RETURNING e.id, e.lane, e.version
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'stop requested', :by, version, :detail FROM e
)
SELECT id::text, pg_notify('duly', lane)::text FROM e

-- name: settle
-- An event that is not returned had lost its claim, and its verdict is dropped. An event that is given back without an
-- attempt keeps its place in the queue. One that was asked to stop is cancelled. (`complete` settles delivered events.)
WITH {patience}, settled AS (
    UPDATE duly.events AS e
    SET status = CASE WHEN e.stop_requested IS NULL THEN verdict.status ELSE 'CANCELLED' END,
        ready = CASE WHEN e.stop_requested IS NOT NULL THEN NULL
                     WHEN verdict.wait = 0 AND verdict.counts = 0 AND e.attempts = 0 THEN e.due
                     ELSE {now} + verdict.wait * {us} END,
        attempts = e.attempts + verdict.counts,
        unsettled = e.unsettled - 1,
        last_error = coalesce(verdict.error, e.last_error)
    FROM unnest(:id::uuid[], :version::int[], :status::text[], :act::text[], :error::text[], :wait::bigint[],
                :counts::int[], :output::text[]) AS verdict (id, version, status, act, error, wait, counts, output)
    WHERE e.id = verdict.id AND e.version = verdict.version AND e.status = CASE WHEN verdict.id IS NOT NULL THEN 'PROCESSING' END
      AND (SELECT told FROM patience) IS NOT NULL
    RETURNING e.id, e.version, e.attempts, e.claimed, verdict.error, verdict.counts, verdict.output, e.stop_requested IS NOT NULL AS stopped,
              CASE WHEN e.stop_requested IS NULL THEN verdict.act ELSE 'cancelled' END AS act,
              CASE WHEN e.stop_requested IS NULL AND verdict.status = 'SKIPPED' THEN 'expired' END AS cause
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, attempt, claimed, detail, output, cause)
    SELECT id, {now}, act, :worker, version, CASE WHEN counts > 0 THEN attempts END, claimed, error, output, cause FROM settled
)
SELECT id::text, stopped FROM settled

-- fragment: ended
-- Counts completed events. The worker has grouped those that are alike: it knows all but when they end. If some had lost their
-- claims, those that had not are read again; the others leave no trace. (Returning columns of each event and grouping them
-- here took 1 µs for each.)
ended AS (
    INSERT INTO duly.ended_runs (at, tenant, schedule, type, lane, status, duration, lateness, many)
    SELECT {now}, tenant, schedule, type, lane, 'COMPLETED', greatest(date_part('epoch', {now} - claimed), 0), lateness, runs.many
    FROM unnest(:tenants::text[], :schedules::text[], :types::text[], :lanes::text[], :claims::timestamptz[],
                :latenesses::double precision[], :counts::bigint[]) AS runs (tenant, schedule, type, lane, claimed, lateness, many)
    WHERE (SELECT count(*) FROM settled) = :many
    UNION ALL
    SELECT {now}, tenant, CASE WHEN starts_with(series, 'schedule:') THEN substr(series, 10) END, type, lane, 'COMPLETED',
           greatest(date_part('epoch', {now} - claimed), 0), greatest(date_part('epoch', claimed - due), 0), 1
    FROM duly.events WHERE (SELECT count(*) FROM settled) < :many AND id = ANY (ARRAY(SELECT id FROM settled))
)

-- name: complete
-- Like `settle`, for the most frequent verdict, delivered; the event's own row is the history of it. No row is returned
-- if all events were settled. Two texts instead of arrays: encoding an array costs a client more than delivering the
-- event.
WITH {patience}, settled AS (
    UPDATE duly.events AS e
    SET status = 'COMPLETED', ready = NULL, attempts = e.attempts + 1, unsettled = e.unsettled - 1,
        executed = greatest(e.claimed, e.due), settled = {now}, worker = :worker
    FROM unnest(string_to_array(:ids, ',')::uuid[], string_to_array(:versions, ',')::int[]) AS done (id, version)
    WHERE e.id = done.id AND e.version = done.version AND e.status = CASE WHEN done.id IS NOT NULL THEN 'PROCESSING' END
      AND (SELECT told FROM patience) IS NOT NULL
    RETURNING e.id
), {ended}
SELECT array_agg(id)::text[] FROM settled HAVING count(*) < :many

-- name: complete_with_output
-- The same for commands, which have written something.
WITH {patience}, settled AS (
    UPDATE duly.events AS e
    SET status = 'COMPLETED', ready = NULL, attempts = e.attempts + 1, unsettled = e.unsettled - 1,
        executed = greatest(e.claimed, e.due), settled = {now}, worker = :worker, output = done.output
    FROM unnest(:id::uuid[], :version::int[], :output::text[]) AS done (id, version, output)
    WHERE e.id = done.id AND e.version = done.version AND e.status = CASE WHEN done.id IS NOT NULL THEN 'PROCESSING' END
      AND (SELECT told FROM patience) IS NOT NULL
    RETURNING e.id
), {ended}
SELECT id::text FROM settled

-- name: schedules
SELECT {s.schedule} FROM duly.schedules AS s WHERE id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE

-- name: schedule_named (read)
SELECT {s.schedule} FROM duly.schedules AS s WHERE tenant = :tenant AND name = :schedule

-- name: shown_schedules (read)
{shown}
WHERE (:tenant::text IS NULL OR s.tenant = :tenant) AND (s.tenant, s.name) > (:after_tenant::text, :after_name::text) AND ({where})
ORDER BY s.tenant, s.name LIMIT :limit

-- name: shown_schedule (read)
{shown}
WHERE s.tenant = :tenant AND s.name = :schedule

-- name: halted (read)
SELECT {s.schedule} FROM duly.schedules AS s WHERE halt_kind = :kind ORDER BY tenant, name LIMIT :limit

-- name: code_schedules (read)
-- Schedules that a function declares or once declared.
SELECT {s.schedule} FROM duly.schedules AS s WHERE origin IS NOT NULL ORDER BY tenant, name

-- name: put_schedule
INSERT INTO duly.schedules AS s ({put_schedule columns}, created, updated)
SELECT {put_schedule columns}, {now}, {now} FROM {put_schedule rows}
ON CONFLICT (tenant, name) DO UPDATE SET {put_schedule from excluded}, updated = excluded.updated
WHERE s.id = excluded.id
RETURNING id::text

-- name: imported (read)
SELECT {s.schedule} FROM duly.schedules AS s WHERE tenant = :tenant AND imported_from = :source ORDER BY name

-- name: mark_imported
-- No edit: it changes neither `updated` nor the history.
UPDATE duly.schedules AS s SET imported_from = :source, imported_as = given.imported_as
FROM unnest(:id::uuid[], :imported_as::text[]) AS given (id, imported_as) WHERE s.id = given.id
RETURNING s.id::text

-- name: delete_schedule
DELETE FROM duly.schedules WHERE id = :id::uuid RETURNING id::text

-- name: dependents (read)
SELECT name FROM duly.schedules
WHERE tenant = :tenant AND policies -> 'depends_on' ->> 'schedule' = :schedule ORDER BY name

-- name: pause_ends (read)
-- Schedules whose pause ends by itself, the next one first.
SELECT id::text, paused_until, {now} FROM duly.schedules
WHERE NOT enabled AND paused_until IS NOT NULL ORDER BY paused_until, id LIMIT :limit

-- name: tell_pause
SELECT pg_notify('duly', :lane)::text

-- name: halt
-- (A schedule that somebody has enabled by hand is no longer paused.)
UPDATE duly.schedules AS s
SET halted = verdict.halted, halt_kind = verdict.halt_kind, paused_since = CASE WHEN NOT s.enabled THEN s.paused_since END
FROM unnest(:id::uuid[], :halted::text[], :halt_kind::text[]) AS verdict (id, halted, halt_kind) WHERE s.id = verdict.id
RETURNING s.id::text

-- name: plant
WITH e AS (
    INSERT INTO duly.events ({plant columns}, due, ready, scheduled, created)
    SELECT {plant columns}, coalesce(due, {now}), CASE WHEN held IS NULL THEN coalesce(due, {now}) END,
           coalesce(scheduled, {now}), {now}
    FROM {plant rows}
    ON CONFLICT (series, occurrence) WHERE series IS NOT NULL DO NOTHING
    RETURNING id, lane, ready
)
SELECT id::text, (SELECT count(pg_notify('duly', lane)::text)
                  FROM (SELECT DISTINCT lane FROM e WHERE ready <= {now} + :soon::bigint * {us}) AS soon)
FROM e

-- name: reserved_heads
-- Reserved heads, locked with their schedules in the order of ids. Unlike `start`, this waits for the disk in the end: the
-- decision may move the head, and the server must not lose that.
WITH picked AS MATERIALIZED (
    SELECT events.* FROM unnest(:id::uuid[], :version::int[], :until::timestamptz[]) AS mine (id, version, until)
    JOIN duly.events ON events.id = mine.id AND events.version = mine.version AND events.ready = mine.until
    WHERE events.head AND events.unsettled = 0 AND mine.until <= {now} + :ending_within::bigint * {us}
    FOR UPDATE OF events SKIP LOCKED
)
SELECT {e.event}, {micros}, {s.schedule}
FROM (SELECT * FROM picked ORDER BY series) AS e
LEFT JOIN LATERAL (
    SELECT * FROM duly.schedules
    WHERE id = CASE WHEN e.series LIKE 'schedule:%' THEN substr(e.series, 10)::uuid END
    FOR UPDATE
) AS s ON true

-- name: heads_without_successors (read)
SELECT {e.event}, {s.schedule}
FROM unnest(:ids::uuid[]) AS wanted (id)
JOIN duly.events AS e ON e.id = wanted.id AND e.head = (wanted.id IS NOT NULL) AND e.next_state IS NULL
LEFT JOIN duly.schedules AS s ON s.id = CASE WHEN e.series LIKE 'schedule:%' THEN substr(e.series, 10)::uuid END

-- name: carry
-- Writes successors of heads that do not have them yet. Whoever changes a head meanwhile writes its successor too, or
-- moves it: then this one is out of date, and is not written. (SKIP LOCKED: such a change must not wait for this, nor
-- this for it.)
WITH picked AS MATERIALIZED (
    SELECT e.id FROM {carry rows}
    JOIN duly.events AS e ON e.id = given.id
    WHERE e.head = (given.id IS NOT NULL) AND e.next_state IS NULL AND e.due = given.due
    FOR UPDATE OF e SKIP LOCKED
)
UPDATE duly.events AS e SET {carry from given} FROM {carry rows}
WHERE e.id = given.id AND e.id = ANY (ARRAY(SELECT id FROM picked))
RETURNING e.id::text

-- name: fire
-- Claims a reserved head, which is then no longer a head; if downtime missed several occurrences, it fires as the latest
-- of them. (Its reservation has counted the claim already.)
UPDATE duly.events AS e
SET status = 'PROCESSING', unsettled = 1, next_state = 'planted', worker = :worker, claimed = :claimed::timestamptz,
    ready = :until::timestamptz, head = false, due = given.due, scheduled = given.scheduled,
    occurrence = given.occurrence, stands_for = given.stands_for, gated = given.gated
FROM unnest(:id::uuid[], :due::timestamptz[], :scheduled::timestamptz[], :occurrence::text[], :stands_for::int[],
            :gated::boolean[])
  AS given (id, due, scheduled, occurrence, stands_for, gated)
WHERE e.id = given.id
RETURNING e.id::text

-- name: drop
-- Skips heads that will not fire.
WITH e AS (
    UPDATE duly.events AS e
    SET head = false, status = 'SKIPPED', ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL,
        stands_for = given.stands_for
    FROM unnest(:id::uuid[], :stands_for::int[], :act::text[], :detail::text[], :cause::text[], :first::timestamptz[],
                :last::timestamptz[])
      AS given (id, stands_for, act, detail, cause, first, last)
    WHERE e.id = given.id AND e.status = CASE WHEN given.id IS NOT NULL THEN 'PENDING' END
    RETURNING e.id, e.version, given.act, given.detail, given.cause, given.first, given.last
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail, cause, first, last)
    SELECT id, {now}, act, :by, version, detail, cause, first, last FROM e
)
SELECT id::text FROM e

-- name: hold
-- Holds heads that are due but have to wait.
WITH e AS (
    UPDATE duly.events AS e SET ready = NULL, held = given.held, hold_kind = given.hold_kind, held_for = NULL
    FROM unnest(:id::uuid[], :held::text[], :hold_kind::text[]) AS given (id, held, hold_kind)
    WHERE e.id = given.id
    RETURNING e.id, e.version, e.held
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'held', :by, version, held FROM e
)
SELECT id::text FROM e

-- name: note
-- (A request of the API may write history only for rows that it can see: a deletion is recorded before the row is
-- deleted.)
WITH audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, detail)
    SELECT subject, {now}, act, :by, detail
    FROM unnest(:subject::uuid[], :act::text[], :detail::text[]) AS given (subject, act, detail)
)
SELECT cardinality(:subject::uuid[])

-- name: note_caught_up
INSERT INTO duly.journal (subject, at, act, worker, detail, cause, first, last)
SELECT id, {now}, 'caught up', :by, detail, :cause, first, last
FROM unnest(:id::uuid[], :detail::text[], :first::timestamptz[], :last::timestamptz[]) AS given (id, detail, first, last)

-- name: note_halted
-- Why a series of a user has no next event.
INSERT INTO duly.journal (subject, at, act, worker, detail, series)
SELECT subject, {now}, 'halted', :by, detail, series
FROM unnest(:subject::uuid[], :series::text[], :detail::text[]) AS given (subject, series, detail)

-- name: under_way (read)
-- Events that wait for their destination count as under way too, because they were released.
SELECT series, count(*) FROM (
    SELECT series FROM duly.events WHERE series = ANY (:series::text[]) AND gated AND NOT head AND ready IS NOT NULL
    UNION ALL
    SELECT series FROM duly.events
    WHERE series = ANY (:series::text[]) AND held IS NOT NULL AND hold_kind = 'target' AND gated AND NOT head
) AS let_go GROUP BY series

-- name: successes (read)
SELECT s.tenant, s.name,
       (SELECT max(settled) FROM duly.events WHERE series = 'schedule:' || s.id AND rule IS NULL AND settled IS NOT NULL)
FROM unnest(:tenant::text[], :name::text[]) AS wanted (tenant, name)
JOIN duly.schedules AS s ON s.tenant = wanted.tenant AND s.name = wanted.name

-- name: let_go
-- Releases events that wait for others of their series to end, oldest first. A locked event is being changed by
-- somebody else, and that change releases it too.
WITH picked AS MATERIALIZED (
    SELECT found.id
    FROM unnest(:series::text[], :free::int[]) AS room (series, free)
    CROSS JOIN LATERAL (
        SELECT id FROM duly.events
        WHERE series = room.series AND held IS NOT NULL AND hold_kind = 'limit'
        ORDER BY due, id
        LIMIT room.free
        FOR UPDATE SKIP LOCKED
    ) AS found
), e AS (
    UPDATE duly.events AS e SET held = NULL, hold_kind = NULL, held_for = NULL, ready = CASE WHEN attempts = 0 THEN due ELSE {now} END
    WHERE id = ANY (ARRAY(SELECT id FROM picked))
    RETURNING e.id, e.lane, e.version, e.ready
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version) SELECT id, {now}, 'released', :by, version FROM e
)
SELECT id::text, (SELECT count(pg_notify('duly', lane)::text)
                  FROM (SELECT DISTINCT lane FROM e WHERE ready <= {now} + :soon::bigint * {us}) AS soon) FROM e

-- name: hold_series
-- Holds all events that have not begun, a batch at a time, because a statement has a time limit.
WITH e AS (
    UPDATE duly.events AS e SET ready = NULL, held = :held::text, hold_kind = :hold_kind, held_for = NULL
    WHERE id = ANY (ARRAY(
        SELECT id FROM duly.events
        WHERE series = :series AND status = 'PENDING' AND attempts = 0 AND unsettled = 0
          AND (held IS NULL OR hold_kind IN ('limit', 'target'))
        LIMIT :many
    ))
    RETURNING e.id, e.version
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'held', :by, version, :held::text FROM e
)
SELECT id::text FROM e

-- name: rehold
-- Replaces the reason of held events, a batch at a time.
UPDATE duly.events SET held = :held, hold_kind = :hold_kind, held_for = NULL
WHERE id = ANY (ARRAY(
    SELECT id FROM duly.events WHERE series = :series AND held IS NOT NULL AND hold_kind = :kind AND NOT head LIMIT :many
))
RETURNING id::text

-- name: gate
-- Marks events that have not ended, when their schedule begins or ceases to limit concurrency, a batch at a time.
UPDATE duly.events SET gated = :gated
WHERE id = ANY (ARRAY(
    SELECT id FROM duly.events
    WHERE series = :series AND NOT head AND (ready IS NOT NULL OR held IS NOT NULL) AND gated <> :gated
    LIMIT :many
))
RETURNING id::text

-- name: cancel_series
-- Cancels all events that have not begun, a batch at a time.
WITH e AS (
    UPDATE duly.events AS e SET status = 'CANCELLED', head = false, ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL
    WHERE id = ANY (ARRAY(
        SELECT id FROM duly.events
        WHERE series = :series AND status = 'PENDING' AND attempts = 0 AND unsettled = 0
        LIMIT :many
    ))
    RETURNING e.id, e.version
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'cancelled', :by, version, :detail FROM e
)
SELECT id::text FROM e

-- name: waiting_series (read)
-- Series with held events whose reason may no longer apply: no event of the series is under way, or its schedule is no
-- longer paused. (A range of names, which begin with schedule: or user:, and not IS NOT NULL: of a table that was never
-- analysed, the planner would expect that almost every event is held, and read all of it.)
SELECT DISTINCT e.series FROM duly.events AS e
LEFT JOIN duly.schedules AS s ON s.id = CASE WHEN e.series LIKE 'schedule:%' THEN substr(e.series, 10)::uuid END
WHERE e.held IS NOT NULL AND e.series > '' AND e.series < 'v' AND (e.hold_kind = 'limit' OR (e.hold_kind = 'paused' AND s.enabled)) LIMIT 1000

-- name: stale_heads
-- Heads whose instants come from older zone data. (Locked in the same order as the heads of users: otherwise a replan
-- and a change of many users could deadlock.)
WITH stale AS MATERIALIZED (
    SELECT id FROM duly.events
    WHERE head AND zone_data IS NOT NULL AND zone_data < :zone_data AND (zone_data, id) > (:after_data, :after_id::uuid)
    ORDER BY zone_data, id LIMIT :limit
)
SELECT {e.event} FROM duly.events AS e WHERE id = ANY (ARRAY(SELECT id FROM stale)) AND head ORDER BY series FOR UPDATE

-- name: replan
WITH e AS (
    UPDATE duly.events AS e
    SET due = given.due, ready = CASE WHEN held IS NULL THEN given.due END, scheduled = given.scheduled,
        occurrence = given.occurrence, zone_data = :zone_data, {carry from given}
    FROM {replan rows}
    WHERE e.id = given.id
    RETURNING e.id, e.lane, e.ready, e.version, given.detail
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'replanned', :by, version, detail FROM e WHERE detail IS NOT NULL
)
SELECT id::text, (SELECT count(pg_notify('duly', lane)::text)
                  FROM (SELECT DISTINCT lane FROM e WHERE ready <= {now} + :soon::bigint * {us}) AS soon)
FROM e

-- name: taken (read)
SELECT e.series, e.occurrence
FROM unnest(:series::text[], :occurrence::text[]) AS wanted (series, occurrence)
CROSS JOIN LATERAL (
    SELECT * FROM duly.events AS e WHERE e.series = wanted.series AND e.occurrence = wanted.occurrence OFFSET 0
) AS e

-- name: facts (read)
-- The events of a series, by the names of their occurrences.
SELECT e.series, e.occurrence, coalesce(e.scheduled, e.due)
FROM unnest(:series::text[], :low::text[], :high::text[]) AS wanted (series, low, high)
CROSS JOIN LATERAL (
    SELECT * FROM duly.events AS e
    WHERE e.series = wanted.series AND e.occurrence >= wanted.low AND e.occurrence <= wanted.high OFFSET 0
) AS e

-- name: passed_ahead (read)
-- Skipped events whose occurrence, by its rule, is still in the future. (An event that has given its name back is no
-- longer named by a date, so its name sorts after 'a'.)
SELECT {e.event}
FROM unnest(:series::text[], :after::timestamptz[]) AS wanted (series, after)
CROSS JOIN LATERAL (
    SELECT * FROM duly.events AS e
    WHERE e.series = wanted.series AND e.status = 'SKIPPED' AND e.scheduled > wanted.after AND e.occurrence < 'a' OFFSET 0
) AS e

-- name: free_names
WITH e AS (
    UPDATE duly.events AS e
    SET occurrence = given.occurrence, scheduled = given.scheduled, stands_for = given.stands_for
    FROM unnest(:id::uuid[], :occurrence::text[], :scheduled::timestamptz[], :stands_for::int[], :detail::text[],
                :first::timestamptz[])
      AS given (id, occurrence, scheduled, stands_for, detail, first)
    WHERE e.id = given.id
    RETURNING e.id, e.version, given.detail, given.first, CASE WHEN given.first IS NOT NULL THEN given.scheduled END AS last
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail, first, last)
    SELECT id, {now}, 'named again', :by, version, detail, first, last FROM e
)
SELECT id::text FROM e

-- name: head
SELECT {e.event} FROM duly.events AS e WHERE series = :series AND head FOR UPDATE

-- name: head_id (read)
SELECT id::text FROM duly.events WHERE series = :series AND head

-- name: reshape
-- Updates heads that have not started, in place, after a change of their schedules or users.
WITH e AS (
    UPDATE duly.events AS e
    SET {reshape from given}, held_for = NULL, ready = CASE WHEN given.held IS NULL THEN given.due END
    FROM {reshape rows}
    WHERE e.id = given.id
    RETURNING e.id, e.lane, e.ready, e.version, given.act, given.detail
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, act, :by, version, detail FROM e
)
SELECT id::text, (SELECT count(pg_notify('duly', lane)::text)
                  FROM (SELECT DISTINCT lane FROM e WHERE ready <= {now} + :soon::bigint * {us}) AS soon)
FROM e

-- name: get (read)
SELECT {e.event} FROM duly.events AS e WHERE id = :id::uuid

-- name: lock
SELECT {e.event} FROM duly.events AS e WHERE id = :id::uuid FOR UPDATE

-- name: change
-- An event that is changed while it is claimed has an expired lease: the end of that claim is recorded too.
WITH was AS MATERIALIZED (
    SELECT id, worker, version, claimed FROM duly.events WHERE id = :id::uuid AND status = 'PROCESSING'
), changed AS (
    UPDATE duly.events AS e
    SET status = :status, due = :due::timestamptz, attempts = :attempts, unsettled = :interruptions,
        held = CASE WHEN :status IN ('PENDING', 'PROCESSING') THEN held END,
        hold_kind = CASE WHEN :status IN ('PENDING', 'PROCESSING') THEN hold_kind END,
        held_for = CASE WHEN :status IN ('PENDING', 'PROCESSING') THEN held_for END,
        ready = CASE WHEN :status IN ('PENDING', 'PROCESSING') AND held IS NULL THEN greatest(:due::timestamptz, {now}) END,
        head = :head, lane = lane
    WHERE id = :id::uuid
    RETURNING e.id, e.lane, e.ready, e.version
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, claimed, detail)
    SELECT id, {now}, 'interrupted', worker, version, claimed, 'its worker vanished and the lease expired' FROM was
    UNION ALL
    SELECT id, {now}, :act, :by, version, NULL, :detail FROM changed
)
SELECT id::text, (SELECT count(pg_notify('duly', lane)::text) FROM changed WHERE ready <= {now} + :soon::bigint * {us})
FROM changed

-- name: link_replay
UPDATE duly.events SET replay_of = CASE id WHEN :new::uuid THEN :old::uuid::text ELSE replay_of END,
                       replayed_as = CASE id WHEN :old::uuid THEN :new::uuid::text ELSE replayed_as END
WHERE id IN (:new::uuid, :old::uuid)
RETURNING id::text

-- name: find (read)
SELECT {e.event} FROM duly.events AS e WHERE ({where}) ORDER BY e.id DESC LIMIT :limit

-- name: page_bound (read)
-- The last event of those that a page examines, and the next one below it, if there is one. (The subquery avoids
-- converting the skipped ids to text.)
SELECT id::text
FROM (SELECT e.id FROM duly.events AS e WHERE ({where}) ORDER BY e.id DESC OFFSET :skipped LIMIT 2) AS last
ORDER BY last.id DESC

-- name: page_bound_of_all (read)
SELECT duly.floor_of_all(:before::uuid, :skipped)::text

-- fragment: found
-- Dead letters that have not changed since they were found. A locked dead letter is being changed by somebody else, and
-- is left alone.
found AS MATERIALIZED (
    SELECT e.id, e.attempts, e.last_error, given.place
    FROM unnest(:id::uuid[], :version::int[]) WITH ORDINALITY AS given (id, version, place)
    JOIN duly.events AS e
      ON e.id = given.id AND e.version = given.version AND e.status = CASE WHEN given.id IS NOT NULL THEN 'FAILED' END
    FOR UPDATE OF e SKIP LOCKED
)

-- name: find_dead (read)
-- (A scalar subquery runs for each row; the planner might turn NOT EXISTS into a join with the whole journal.)
SELECT e.id::text, e.version, e.via, CASE WHEN e.via IS NOT NULL OR e.lane = 'command' THEN e.target::text END, e.freed_key IS NOT NULL
FROM duly.events AS e
WHERE e.status = 'FAILED' AND e.id > :after::uuid AND ({where})
  AND coalesce((SELECT max(at) FROM duly.journal WHERE subject = e.id), '-infinity') <= :since::timestamptz
ORDER BY e.id LIMIT :limit

-- name: count_dead (read)
SELECT e.tenant, e.type, e.lane, e.destination, count(*), (sum(count(*)) OVER ())::bigint
FROM duly.events AS e WHERE e.status = 'FAILED' AND ({where})
GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4 NULLS LAST LIMIT :limit

-- name: replay_found
WITH {found}, e AS (
    UPDATE duly.events AS e
    SET status = 'PENDING', attempts = 0, unsettled = 0,
        ready = greatest(e.due, coalesce((:ready::timestamptz[])[found.place::int], {now}))
    FROM found WHERE e.id = found.id
    RETURNING e.id, e.lane, e.version, e.ready, found.attempts, found.last_error
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'replayed', :by, version, left(concat('after ', attempts, ' attempts: ', last_error), :longest) FROM e
)
SELECT id::text, ready, (SELECT count(pg_notify('duly', lane)::text)
                         FROM (SELECT DISTINCT lane FROM e WHERE ready <= {now} + :soon::bigint * {us}) AS soon)
FROM e

-- name: discard_found
WITH {found}, e AS (
    UPDATE duly.events AS e SET status = 'CANCELLED' FROM found WHERE e.id = found.id RETURNING e.id, e.version
), audit AS (
    INSERT INTO duly.journal (subject, at, act, worker, version, detail)
    SELECT id, {now}, 'discarded', :by, version, :detail FROM e
)
SELECT id::text FROM e

-- name: history (read)
-- (The entry of the attempt that completed an event has no id: it is in the event's own row. Only replays follow it.)
SELECT {entry} FROM duly.history WHERE subject = :subject::uuid ORDER BY act = 'replayed as', id NULLS LAST
LIMIT :limit OFFSET :skipped

-- name: overview (read)
SELECT lane, status, count(*), min(due) FROM duly.events WHERE ready IS NOT NULL OR held IS NOT NULL OR status = 'FAILED'
GROUP BY lane, status ORDER BY lane, status

-- name: template (read)
SELECT {t.template} FROM duly.templates AS t WHERE tenant = :tenant AND name = :template

-- name: lock_template
SELECT {t.template} FROM duly.templates AS t WHERE tenant = :tenant AND name = :template FOR UPDATE

-- name: list_templates (read)
SELECT {t.template} FROM duly.templates AS t WHERE tenant = :tenant AND name > :after_name ORDER BY name LIMIT :limit

-- name: put_template
INSERT INTO duly.templates ({put_template columns}, created, updated)
SELECT {put_template columns}, {now}, {now} FROM {put_template rows}
ON CONFLICT (tenant, name) DO UPDATE SET {put_template from excluded}, updated = excluded.updated

-- name: delete_template
DELETE FROM duly.templates WHERE tenant = :tenant AND name = :template
