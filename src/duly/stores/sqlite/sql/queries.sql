-- Named queries; `:name` is a parameter and `{name}` a fragment. The names are the same in both dialects.
-- No query lists the columns of a record: see columns/lists.py for `{event}`, `{put rows}` and the like.
-- Differences from PostgreSQL: SQLite has no arrays, so rows arrive as one JSON parameter `:rows`, each an array in the
-- order of the columns. It has no CTEs that write, so a query may be several statements, which the store runs in one
-- BEGIN IMMEDIATE. Nobody else can write meanwhile, so no locks are needed. `iso` is a function of the store.

-- fragment: as_of
min(:now, coalesce(:as_of, :now))

-- fragment: shown
SELECT {s.schedule}, head.due, head.held, head.hold_kind, last.claimed, last.status
FROM schedules AS s LEFT JOIN events AS head ON head.series = 'schedule:' || s.id AND head.head
LEFT JOIN events AS last ON last.id = (
    SELECT id FROM events WHERE series = 'schedule:' || s.id AND rule IS NULL AND claimed IS NOT NULL
    AND NOT head AND status <> 'SKIPPED' ORDER BY id DESC LIMIT 1)

-- name: now (read)
SELECT :now

-- name: try_writing
-- Writes a page and restores it: nothing is left behind. An UPDATE to the same value would write nothing.
INSERT INTO migrations (version, name, applied) VALUES (0, 'is gone in the same transaction', :now);
DELETE FROM migrations WHERE version = 0

-- name: add
INSERT INTO events ({add columns}, due, ready, created)
SELECT {add columns}, coalesce(due, :now + delay), coalesce(due, :now + delay), :now FROM {add rows}

-- name: copying (read)
-- SQLite has no COPY.
SELECT :now, 1

-- name: notify (read)
-- Does nothing: sleeping workers check the file's version.
SELECT 0

-- fragment: not_withdrawn
(given.asked IS NULL OR NOT EXISTS (
    SELECT 1 FROM events AS gone
    WHERE gone.tenant = given.tenant AND gone.key = given.key AND gone.status = 'CANCELLED' AND gone.asked >= given.asked
))

-- fragment: not_remembered
NOT EXISTS (SELECT 1 FROM fired_keys AS fired WHERE fired.tenant = given.tenant AND fired.key = given.key)

-- fragment: closed
-- Whether a request over HTTP would put a timer in place of a command that code has scheduled.
(old.lane = 'command' AND old.via IS NULL AND excluded.via IS NOT NULL)

-- fragment: debounced
-- The due time of an event that is put again: with `quiet`, so long after now, at most `max_wait` after the first call.
CASE WHEN excluded.quiet IS NULL THEN excluded.due
     ELSE min(:now + excluded.quiet,
              coalesce(coalesce(old.first_asked, :now) + excluded.max_wait, :now + excluded.quiet)) END

-- name: put
-- An event of another type and one that has started or ended are left alone, and so is one that would not change: none of
-- them is returned. Of requests with an `asked` position, an older one changes nothing, and a newer one is recorded even
-- if its content is the same; one that is not newer than a cancelled event does not create it again. Under a key that has
-- fired, nothing is put: `put_again` decides about that. (A debounced call writes no history: the event itself has the
-- first call and the last.)
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT old.id, :now, 'moved', :by, old.version,
       'due ' || iso(old.due) || ' → ' || iso(coalesce(given.due, :now + given.delay))
FROM {put rows} JOIN events AS old
  ON old.tenant = given.tenant AND old.key = given.key AND old.key IS NOT NULL AND old.status <> 'CANCELLED'
WHERE old.status = 'PENDING' AND old.attempts = 0 AND old.unsettled = 0 AND (given.asked <= old.asked) IS NOT TRUE
  AND old.type = given.type AND given.quiet IS NULL AND {not_withdrawn}
  AND NOT (old.lane = 'command' AND old.via IS NULL AND given.via IS NOT NULL)
  AND ({old.moved}, old.due) IS NOT ({given.moved}, coalesce(given.due, :now + given.delay));
INSERT INTO events AS old ({put columns}, due, ready, created, first_asked)
SELECT {put columns}, coalesce(due, :now + delay), coalesce(due, :now + delay), :now, iif(quiet IS NULL, NULL, :now)
FROM {put rows}
WHERE {not_remembered} AND {not_withdrawn}
ON CONFLICT (tenant, key) WHERE key IS NOT NULL AND status <> 'CANCELLED' DO UPDATE
SET {put from excluded}, due = {debounced}, ready = {debounced}, held = NULL, hold_kind = NULL, held_for = NULL,
    asked = coalesce(excluded.asked, old.asked),
    first_asked = iif(excluded.quiet IS NULL, NULL, coalesce(old.first_asked, excluded.first_asked))
WHERE old.status = 'PENDING' AND old.attempts = 0 AND old.unsettled = 0 AND old.type = excluded.type AND NOT {closed}
  AND (excluded.asked <= old.asked) IS NOT TRUE
  AND (excluded.asked IS NOT NULL
       OR ({old.moved}, old.due, old.via) IS NOT ({excluded.moved}, {debounced}, excluded.via))
RETURNING {event}, id IN (SELECT given.id FROM {put rows}) AS inserted

-- fragment: forgotten
-- Whether a key that has fired is no longer remembered.
coalesce(settled, claimed, due) <= :now - :memory

-- name: by_keys (read)
SELECT {event}, {forgotten} FROM events
WHERE (tenant, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows)) AND key IS NOT NULL AND status <> 'CANCELLED'

-- name: withdrawn (read)
-- Events that were cancelled after these requests.
SELECT {event} FROM events
WHERE id IN (
    SELECT gone.id FROM jsonb_each(:rows) AS wanted CROSS JOIN events AS gone
      ON gone.tenant = wanted.value ->> 0 AND gone.key = wanted.value ->> 1 AND gone.status = 'CANCELLED'
      AND gone.asked >= wanted.value ->> 2
)

-- name: by_key (read)
-- The open event of a key, or else its latest. (Three lookups, each with its index: the one that has the key, the latest
-- that was cancelled, and the latest whose key was taken. Ids sort by their time of creation.)
SELECT {event} FROM (
    SELECT * FROM events WHERE tenant = :tenant AND key = :key AND key IS NOT NULL AND status <> 'CANCELLED'
    UNION ALL
    SELECT * FROM (SELECT * FROM events WHERE tenant = :tenant AND key = :key AND key IS NOT NULL AND status = 'CANCELLED'
                   ORDER BY id DESC LIMIT 1)
    UNION ALL
    SELECT * FROM (SELECT * FROM events WHERE tenant = :tenant AND freed_key = :key AND freed_key IS NOT NULL
                   ORDER BY id DESC LIMIT 1)
) ORDER BY status IN ('PENDING', 'PROCESSING') DESC, id DESC LIMIT 1

-- fragment: careful
-- Whether an event is a head about which something has to be decided. Any other head carries its successor: it fires as
-- it is, and its successor is planted from its own row.
(head AND NOT (next_state IS 'known' AND max(:now, due) < ordinary_until
               AND next_data IN (SELECT value FROM json_each(:editions))
               AND NOT EXISTS (SELECT 1 FROM events AS there WHERE there.series = events.series
                               AND there.occurrence = events.next_occurrence AND there.series IS NOT NULL)))

-- fragment: take
-- Claims events: timers, and heads as if there were nothing to decide about them. What only heads need is left to the
-- statements that follow, which find them by an index: here it would cost every timer.
UPDATE events
SET status = 'PROCESSING', version = version + 1, unsettled = 1, worker = :worker, claimed = :now, ready = :now + :lease

-- fragment: put_back
-- Heads to decide about are only reserved: until the lease ends, no other worker takes them.
UPDATE events SET status = 'PENDING', unsettled = 0, claimed = NULL
WHERE head AND unsettled > 0 AND {careful}
RETURNING id

-- fragment: planting
-- Inserts the successors of heads that the statement before has claimed: an index finds the few rows in question. (The
-- old head must have ceased to be the head before the new one is inserted.)
UPDATE events SET head = 0, next_state = 'planting' WHERE head AND unsettled > 0;
INSERT INTO events ({succeed columns}, id, head, occurrence, scheduled, due, ready, created)
SELECT {succeed columns}, new_id(), 1, next_occurrence, next_scheduled, next_due, next_due, :now
FROM events WHERE next_state = 'planting'

-- fragment: planted
UPDATE events SET next_state = 'planted' WHERE next_state = 'planting'

-- fragment: oldest
SELECT id FROM events WHERE lane = :lane AND unsettled = 0 AND ready <= {as_of} ORDER BY ready LIMIT :free

-- name: claim
-- Oldest first. SQLite has no LATERAL: the store runs this once for each lane, in one transaction. Claimed events leave
-- no entries in the index, so the end of the last claim (:since) is not needed.
{take}
WHERE id IN ({oldest})
RETURNING {claimed}, :now;
{put_back};
{planting}
RETURNING id, tenant, type, lane, due;
{planted}

-- name: claim_with_horizon
-- Also returns when the next events of these lanes become ready, as the `horizon` does. (The heads that it puts back and
-- the successors that it plants come afterwards, as rows of their own.)
{take}
WHERE id IN ({oldest})
RETURNING {claimed}, :now,
          (SELECT min((SELECT ready FROM events AS e WHERE e.lane = value AND e.unsettled = 0 AND e.ready > :now
                       ORDER BY e.ready LIMIT 1)) FROM json_each(:lanes)),
          (SELECT min((SELECT ready FROM events AS e WHERE e.lane = value AND e.unsettled > 0 AND e.ready IS NOT NULL
                       ORDER BY e.ready LIMIT 1)) FROM json_each(:lanes));
{put_back};
{planting}
RETURNING id, tenant, type, lane, due;
{planted}

-- name: claim_these
-- The events that can still be claimed, in the given order. (CROSS JOIN: SQLite must begin with the given ids.)
{take}
WHERE id IN (
    SELECT e.id FROM json_each(:ids) AS wanted CROSS JOIN events AS e ON e.id = wanted.value
    WHERE e.unsettled = 0 AND e.ready <= {as_of} AND e.lane IN (SELECT value FROM json_each(:lanes))
    ORDER BY wanted.key LIMIT :free
)
RETURNING {claimed}, :now;
{put_back};
{planting}
RETURNING id, tenant, type, lane, due;
{planted}

-- name: scan_backlog (read)
-- Ready events of tenants and destinations that are not known yet: among the oldest of a lane, and among the newest,
-- because events of a quiet tenant have mostly just become due. There is no index of tenants, because every event would
-- pay for it; so this query reads through a flood up to the given depth, and its last row says how far it came.
SELECT :lane, id, tenant, destination, ready, NULL FROM (
    SELECT id, tenant, destination, ready FROM events
    WHERE lane = :lane AND unsettled = 0 AND ready <= :now ORDER BY ready DESC LIMIT :near
) WHERE (tenant, coalesce(destination, '')) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))
UNION ALL
SELECT * FROM (
    SELECT :lane, id, tenant, destination, ready, NULL FROM (
        SELECT id, tenant, destination, ready FROM events
        WHERE lane = :lane AND unsettled = 0 AND ready <= :now ORDER BY ready LIMIT :depth
    ) WHERE (tenant, coalesce(destination, '')) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))
    LIMIT :many
)
UNION ALL
SELECT :lane, NULL, NULL, NULL, NULL, count(*) FROM (
    SELECT 1 FROM events
    WHERE lane = :lane AND unsettled = 0 AND ready <= :now ORDER BY ready LIMIT :depth
)

-- name: reserve
-- Reserves events that are due in a moment, for a worker that will start each at its instant. None is started yet, so
-- only the version changes, and the time until which no other worker may take the event.
UPDATE events SET version = version + 1, worker = :worker, ready = ready + :patience
WHERE id IN (
    SELECT id FROM events WHERE lane = :lane AND unsettled = 0 AND ready > :now AND ready <= :now + :ahead
    ORDER BY ready LIMIT :free
)
RETURNING id, version, lane, head, ready, :now

-- name: start
-- Starts reserved events that were not cancelled, moved or taken since; unless the clock was set back and they are not
-- due in a moment. Heads to decide about are left as they are.
UPDATE events
SET status = 'PROCESSING', unsettled = 1, claimed = :now, ready = :now + :lease
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version, value ->> 2 AS until FROM json_each(:rows)) AS mine
WHERE events.id = mine.id AND events.version = mine.version AND events.ready = mine.until AND events.unsettled = 0
  AND mine.until <= :now + :ending_within AND NOT {careful}
RETURNING {claimed}, :now, :now;
{planting}
RETURNING id, tenant, type, lane, due;
{planted}

-- name: start_again
-- Restores starts that a power cut has undone: the event is as its reservation left it, and a head gets its successor
-- again. (An event that was settled, changed or held since has a journal entry with this version, and one that was
-- claimed by others since has another version.)
UPDATE events
SET status = 'PROCESSING', unsettled = 1, claimed = mine.claimed
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version, value ->> 2 AS claimed FROM json_each(:rows)) AS mine
WHERE events.id = mine.id AND events.version = mine.version AND events.status = 'PENDING' AND events.unsettled = 0
  AND events.worker = :worker
  AND NOT EXISTS (SELECT 1 FROM journal AS j WHERE j.subject = events.id AND j.version = events.version)
  AND NOT (events.head AND (events.next_state IS NOT 'known' OR EXISTS (
      SELECT 1 FROM events AS there
      WHERE there.series = events.series AND there.occurrence = events.next_occurrence AND there.series IS NOT NULL)))
RETURNING id;
{planting};
{planted}

-- name: note_forgotten
-- Records claims that neither the event nor the journal has, and that can no longer be settled: the next delivery will
-- look like a duplicate.
INSERT INTO journal (subject, at, act, worker, version, claimed, detail)
SELECT e.id, :now, 'forgotten', :worker, value ->> 1, value ->> 2, value ->> 3
FROM json_each(:rows) JOIN events AS e ON e.id = value ->> 0
WHERE value ->> 1 <= e.version AND (e.version IS NOT value ->> 1 OR e.claimed IS NOT value ->> 2)
  AND NOT EXISTS (
      SELECT 1 FROM journal AS j WHERE j.subject = e.id AND j.version = value ->> 1 AND j.claimed IS NOT NULL
  )
RETURNING subject

-- name: release
-- (A head that was found late was reserved from that moment on: it is ready when it is due.)
UPDATE events SET ready = iif(head, due, ready - :patience)
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version, value ->> 2 AS until FROM json_each(:rows)) AS mine
WHERE events.id = mine.id AND events.version = mine.version AND events.ready = mine.until AND events.unsettled = 0
RETURNING lane

-- name: claim_interrupted
-- An expired lease: its worker vanished. After five interruptions, the event itself is considered the cause, and fails.
-- An event that was asked to stop is cancelled.
INSERT INTO journal (subject, at, act, worker, version, claimed, detail)
SELECT id, :now, 'interrupted', worker, version, claimed, 'its worker vanished and the lease expired'
FROM (SELECT * FROM events WHERE lane IN (SELECT value FROM json_each(:lanes)) AND unsettled > 0 AND ready <= {as_of}
      ORDER BY ready, id LIMIT 1)
WHERE status = 'PROCESSING';
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT id, :now, iif(stop_requested IS NULL, 'failed', 'cancelled'), :worker, version + 1,
       iif(stop_requested IS NULL, :error, :stopped)
FROM (SELECT * FROM events WHERE lane IN (SELECT value FROM json_each(:lanes)) AND unsettled > 0 AND ready <= {as_of}
      ORDER BY ready, id LIMIT 1)
WHERE status = 'PROCESSING' AND (unsettled >= :most OR stop_requested IS NOT NULL);
UPDATE events
SET status = CASE WHEN stop_requested IS NOT NULL THEN 'CANCELLED'
                  WHEN status = 'PROCESSING' AND unsettled >= :most THEN 'FAILED' ELSE 'PROCESSING' END,
    ready = iif(stop_requested IS NOT NULL OR (status = 'PROCESSING' AND unsettled >= :most), NULL, :now + :lease),
    last_error = iif(stop_requested IS NULL AND status = 'PROCESSING' AND unsettled >= :most, :error, last_error),
    unsettled = unsettled + iif(stop_requested IS NOT NULL OR (status = 'PROCESSING' AND unsettled >= :most), 0, 1),
    version = version + 1, worker = :worker, claimed = :now
WHERE id IN (
    SELECT id FROM events WHERE lane IN (SELECT value FROM json_each(:lanes)) AND unsettled > 0 AND ready <= {as_of}
    ORDER BY ready, id LIMIT 1
)
-- RETURNING has only new values: those of the claim that ended are in the entry above.
RETURNING {event},
          EXISTS (SELECT 1 FROM journal WHERE subject = events.id AND version = events.version - 1 AND act = 'interrupted'),
          (SELECT worker FROM journal WHERE subject = events.id AND version = events.version - 1 AND act = 'interrupted'),
          (SELECT claimed FROM journal WHERE subject = events.id AND version = events.version - 1 AND act = 'interrupted')

-- name: has_interrupted (read)
-- An expired lease.
SELECT id FROM events WHERE lane IN (SELECT value FROM json_each(:lanes)) AND unsettled > 0 AND ready <= :now
ORDER BY ready LIMIT 1

-- name: horizon (read)
-- If the known frontier of a lane is later than now, all of its ready events are known already: then the next event that
-- will become ready is returned.
SELECT :now,
       min((SELECT ready FROM events WHERE lane = value ->> 0 AND unsettled = 0
            AND ready >= iif(value ->> 1 > :now, :now, -9223372036854775807) ORDER BY ready LIMIT 1)),
       min((SELECT ready FROM events WHERE lane = value ->> 0 AND unsettled > 0 AND ready IS NOT NULL
            ORDER BY ready LIMIT 1))
FROM json_each(:rows)

-- name: renew
UPDATE events SET ready = :now + :lease
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version FROM json_each(:rows)) AS held
WHERE events.id = held.id AND events.version = held.version AND events.status = 'PROCESSING'
RETURNING id, 0 AS locked

-- name: unlocked
-- (Whoever can ask has the only lock.)
SELECT id FROM events WHERE id IN (SELECT value FROM json_each(:ids))

-- name: stop_requests (read)
SELECT id FROM events WHERE worker = :worker AND stop_requested IS NOT NULL AND status = 'PROCESSING'

-- name: request_stop
-- Asks a running event to stop.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT id, :now, 'stop requested', :by, version, :detail FROM events WHERE id = :id AND status = 'PROCESSING';
UPDATE events SET stop_requested = coalesce(stop_requested, :now) WHERE id = :id AND status = 'PROCESSING'
RETURNING id

-- name: settle
-- An event that is not returned had lost its claim, and its verdict is dropped. An event that is given back without an
-- attempt keeps its place in the queue. One that was asked to stop is cancelled. (`complete` settles delivered events.)
INSERT INTO journal (subject, at, act, worker, version, attempt, claimed, detail, output, cause)
SELECT e.id, :now, iif(e.stop_requested IS NULL, value ->> 3, 'cancelled'), :worker, e.version, iif(value ->> 6, e.attempts + 1, NULL), e.claimed, value ->> 4, value ->> 7,
       iif(e.stop_requested IS NULL AND value ->> 2 = 'SKIPPED', 'expired', NULL)
FROM json_each(:rows) JOIN events AS e ON e.id = value ->> 0
WHERE e.version = value ->> 1 AND e.status = 'PROCESSING';
UPDATE events
SET status = iif(stop_requested IS NULL, verdict.status, 'CANCELLED'),
    ready = CASE WHEN stop_requested IS NOT NULL THEN NULL
                 WHEN verdict.wait = 0 AND verdict.counts = 0 AND attempts = 0 THEN due ELSE :now + verdict.wait END,
    attempts = attempts + verdict.counts,
    unsettled = unsettled - 1,
    last_error = coalesce(verdict.error, last_error)
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version, value ->> 2 AS status, value ->> 4 AS error,
             value ->> 5 AS wait, value ->> 6 AS counts FROM json_each(:rows)) AS verdict
WHERE events.id = verdict.id AND events.version = verdict.version AND events.status = 'PROCESSING'
RETURNING id, stop_requested IS NOT NULL AS stopped

-- name: complete
-- Like `settle`, for the most frequent verdict, delivered; the event's own row is the history of it. The driver runs
-- `add_ended` after it.
UPDATE events
SET status = 'COMPLETED', ready = NULL, attempts = attempts + 1, unsettled = unsettled - 1,
    executed = max(claimed, due), settled = :now, worker = :worker
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version FROM json_each(:rows)) AS done
WHERE events.id = done.id AND events.version = done.version AND events.status = 'PROCESSING'
RETURNING id

-- name: complete_with_output
-- The same for commands, which have written something.
UPDATE events
SET status = 'COMPLETED', ready = NULL, attempts = attempts + 1, unsettled = unsettled - 1,
    executed = max(claimed, due), settled = :now, worker = :worker, output = done.output
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version, value ->> 2 AS output FROM json_each(:rows)) AS done
WHERE events.id = done.id AND events.version = done.version AND events.status = 'PROCESSING'
RETURNING id

-- name: schedules
SELECT {s.schedule} FROM schedules AS s WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id

-- name: schedule_named (read)
SELECT {s.schedule} FROM schedules AS s WHERE tenant = :tenant AND name = :schedule

-- name: shown_schedules (read)
{shown}
WHERE (:tenant IS NULL OR s.tenant = :tenant) AND (s.tenant, s.name) > (:after_tenant, :after_name) AND ({where})
ORDER BY s.tenant, s.name LIMIT :limit

-- name: shown_schedule (read)
{shown}
WHERE s.tenant = :tenant AND s.name = :schedule

-- name: halted (read)
SELECT {s.schedule} FROM schedules AS s WHERE halt_kind = :kind ORDER BY tenant, name LIMIT :limit

-- name: code_schedules (read)
-- Schedules that a function declares or once declared.
SELECT {s.schedule} FROM schedules AS s WHERE origin IS NOT NULL ORDER BY tenant, name

-- name: put_schedule
INSERT INTO schedules AS s ({put_schedule columns}, created, updated)
SELECT {put_schedule columns}, :now, :now FROM {put_schedule rows} WHERE true
ON CONFLICT (tenant, name) DO UPDATE SET {put_schedule from excluded}, updated = excluded.updated
WHERE s.id = excluded.id
RETURNING id

-- name: imported (read)
SELECT {s.schedule} FROM schedules AS s WHERE tenant = :tenant AND imported_from = :source ORDER BY name

-- name: mark_imported
-- No edit: it changes neither `updated` nor the history.
UPDATE schedules SET imported_from = :source, imported_as = value ->> 1 FROM json_each(:rows)
WHERE schedules.id = value ->> 0
RETURNING id

-- name: delete_schedule
DELETE FROM schedules WHERE id = :id RETURNING id

-- name: dependents (read)
SELECT name FROM schedules
WHERE tenant = :tenant AND policies ->> '$.depends_on.schedule' = :schedule ORDER BY name

-- name: pause_ends (read)
-- Schedules whose pause ends by itself, the next one first.
SELECT id, paused_until, :now FROM schedules
WHERE NOT enabled AND paused_until IS NOT NULL ORDER BY paused_until, id LIMIT :limit

-- name: tell_pause (read)
-- Wakes the workers of this process (see the store's list); those of other processes check the file's version.
SELECT :lane

-- name: halt
-- (A schedule that somebody has enabled by hand is no longer paused.)
UPDATE schedules
SET halted = verdict.halted, halt_kind = verdict.halt_kind, paused_since = iif(enabled, NULL, paused_since)
FROM (SELECT value ->> 0 AS id, value ->> 1 AS halted, value ->> 2 AS halt_kind FROM json_each(:rows)) AS verdict
WHERE schedules.id = verdict.id

-- name: plant
INSERT INTO events ({plant columns}, due, ready, scheduled, created)
SELECT {plant columns}, coalesce(due, :now), iif(held IS NULL, coalesce(due, :now), NULL), coalesce(scheduled, :now), :now
FROM {plant rows} WHERE true
ON CONFLICT (series, occurrence) WHERE series IS NOT NULL DO NOTHING
RETURNING id

-- name: reserved_heads
SELECT {event}, :now FROM events
WHERE (id, version, ready) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:rows)) AND unsettled = 0
  AND ready <= :now + :ending_within AND head

-- name: heads_without_successors (read)
SELECT {e.event}, {s.schedule}
FROM json_each(:ids) AS wanted CROSS JOIN events AS e ON e.id = wanted.value
LEFT JOIN schedules AS s ON s.id = iif(e.series LIKE 'schedule:%', substr(e.series, 10), NULL)
WHERE e.head AND e.next_state IS NULL

-- name: carry
-- Writes successors of heads that do not have them yet. Whoever changes a head meanwhile writes its successor too, or
-- moves it: then this one is out of date, and is not written.
UPDATE events SET {carry from given} FROM {carry rows}
WHERE events.id = given.id AND events.head AND events.next_state IS NULL AND events.due = given.due
RETURNING id

-- name: fire
-- Claims a reserved head, which is then no longer a head; if downtime missed several occurrences, it fires as the latest
-- of them. (Its reservation has counted the claim already.)
UPDATE events
SET status = 'PROCESSING', unsettled = 1, next_state = 'planted', worker = :worker, claimed = :claimed, ready = :until,
    head = 0, due = given.due, scheduled = given.scheduled, occurrence = given.occurrence,
    stands_for = given.stands_for, gated = given.gated
FROM (SELECT value ->> 0 AS id, value ->> 1 AS due, value ->> 2 AS scheduled, value ->> 3 AS occurrence,
             value ->> 4 AS stands_for, value ->> 5 AS gated FROM json_each(:rows)) AS given
WHERE events.id = given.id
RETURNING id

-- name: drop
-- Skips heads that will not fire.
INSERT INTO journal (subject, at, act, worker, version, detail, cause, first, last)
SELECT e.id, :now, value ->> 2, :by, e.version, value ->> 3, value ->> 4, value ->> 5, value ->> 6
FROM json_each(:rows) JOIN events AS e ON e.id = value ->> 0
WHERE e.status = 'PENDING';
UPDATE events
SET head = 0, status = 'SKIPPED', ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL,
    stands_for = given.stands_for
FROM (SELECT value ->> 0 AS id, value ->> 1 AS stands_for FROM json_each(:rows)) AS given
WHERE events.id = given.id AND events.status = 'PENDING'
RETURNING id

-- name: hold
-- Holds heads that are due but have to wait.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT e.id, :now, 'held', :by, e.version, value ->> 1 FROM json_each(:rows) JOIN events AS e ON e.id = value ->> 0;
UPDATE events SET ready = NULL, held = given.held, hold_kind = given.hold_kind, held_for = NULL
FROM (SELECT value ->> 0 AS id, value ->> 1 AS held, value ->> 2 AS hold_kind FROM json_each(:rows)) AS given
WHERE events.id = given.id
RETURNING id

-- name: note
INSERT INTO journal (subject, at, act, worker, detail)
SELECT value ->> 0, :now, value ->> 1, :by, value ->> 2 FROM json_each(:rows)

-- name: note_caught_up
INSERT INTO journal (subject, at, act, worker, detail, cause, first, last)
SELECT value ->> 0, :now, 'caught up', :by, value ->> 1, :cause, value ->> 2, value ->> 3 FROM json_each(:rows)

-- name: note_halted
-- Why a series of a user has no next event.
INSERT INTO journal (subject, at, act, worker, detail, series)
SELECT value ->> 0, :now, 'halted', :by, value ->> 2, value ->> 1 FROM json_each(:rows)

-- name: under_way (read)
-- Events that wait for their destination count as under way too, because they were released.
SELECT series, count(*) FROM (
    SELECT series FROM events WHERE series IN (SELECT value FROM json_each(:series)) AND gated AND NOT head AND ready IS NOT NULL
    UNION ALL
    SELECT series FROM events
    WHERE series IN (SELECT value FROM json_each(:series)) AND held IS NOT NULL AND hold_kind = 'target' AND gated AND NOT head
) GROUP BY series

-- name: successes (read)
SELECT s.tenant, s.name,
       (SELECT max(settled) FROM events
        WHERE series = 'schedule:' || s.id AND series IS NOT NULL AND rule IS NULL AND settled IS NOT NULL)
FROM json_each(:rows) JOIN schedules AS s ON s.tenant = value ->> 0 AND s.name = value ->> 1

-- name: let_go
-- Releases events that wait for others of their series to end, oldest first. (Runs once for each series, in one
-- transaction.)
INSERT INTO journal (subject, at, act, worker, version)
SELECT id, :now, 'released', :by, version FROM events
WHERE id IN (SELECT id FROM events WHERE series = :series AND held IS NOT NULL AND hold_kind = 'limit'
             ORDER BY due, id LIMIT :free);
UPDATE events SET held = NULL, hold_kind = NULL, held_for = NULL, ready = iif(attempts = 0, due, :now)
WHERE id IN (SELECT id FROM events WHERE series = :series AND held IS NOT NULL AND hold_kind = 'limit'
             ORDER BY due, id LIMIT :free)
RETURNING id

-- name: hold_series
-- Holds all events that have not begun, in one statement: unlike on PostgreSQL, it has no time limit.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT id, :now, 'held', :by, version, :held FROM events
WHERE series = :series AND status = 'PENDING' AND attempts = 0 AND unsettled = 0
  AND (held IS NULL OR hold_kind IN ('limit', 'target'));
UPDATE events SET ready = NULL, held = :held, hold_kind = :hold_kind, held_for = NULL
WHERE series = :series AND status = 'PENDING' AND attempts = 0 AND unsettled = 0
  AND (held IS NULL OR hold_kind IN ('limit', 'target'))
RETURNING id

-- name: rehold
-- Replaces the reason of held events.
UPDATE events SET held = :held, hold_kind = :hold_kind, held_for = NULL
WHERE series = :series AND held IS NOT NULL AND hold_kind = :kind AND NOT head RETURNING id

-- name: gate
-- Marks events that have not ended, when their schedule begins or ceases to limit concurrency.
UPDATE events SET gated = :gated
WHERE series = :series AND NOT head AND (ready IS NOT NULL OR held IS NOT NULL) AND gated <> :gated
RETURNING id

-- name: cancel_series
-- Cancels all events that have not begun.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT id, :now, 'cancelled', :by, version, :detail FROM events
WHERE series = :series AND status = 'PENDING' AND attempts = 0 AND unsettled = 0;
UPDATE events SET status = 'CANCELLED', head = 0, ready = NULL, held = NULL, hold_kind = NULL, held_for = NULL
WHERE series = :series AND status = 'PENDING' AND attempts = 0 AND unsettled = 0
RETURNING id

-- name: waiting_series (read)
-- Series with held events whose reason may no longer apply: no event of the series is under way, or its schedule is no
-- longer paused.
SELECT DISTINCT e.series FROM events AS e LEFT JOIN schedules AS s ON e.series = 'schedule:' || s.id
WHERE e.held IS NOT NULL AND e.series IS NOT NULL AND (e.hold_kind = 'limit' OR (e.hold_kind = 'paused' AND s.enabled)) LIMIT 1000

-- name: stale_heads
-- Heads whose instants come from older zone data.
SELECT {event} FROM events AS e
WHERE head AND zone_data IS NOT NULL AND zone_data < :zone_data AND (zone_data, id) > (:after_data, :after_id)
ORDER BY zone_data, id LIMIT :limit

-- name: replan
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT e.id, :now, 'replanned', :by, e.version, given.detail FROM {replan rows} JOIN events AS e ON e.id = given.id
WHERE given.detail IS NOT NULL;
UPDATE events
SET due = given.due, ready = iif(held IS NULL, given.due, NULL), scheduled = given.scheduled,
    occurrence = given.occurrence, zone_data = :zone_data, {carry from given}
FROM {replan rows}
WHERE events.id = given.id
RETURNING id

-- name: taken (read)
SELECT e.series, e.occurrence
FROM json_each(:rows) AS wanted
JOIN events AS e ON e.series = wanted.value ->> 0 AND e.occurrence = wanted.value ->> 1 AND e.series IS NOT NULL

-- name: facts (read)
-- The events of a series, by the names of their occurrences. (CROSS JOIN: SQLite must keep this order.)
SELECT e.series, e.occurrence, coalesce(e.scheduled, e.due)
FROM json_each(:rows) AS wanted CROSS JOIN events AS e
  ON e.series = wanted.value ->> 0 AND e.occurrence >= wanted.value ->> 1 AND e.occurrence <= wanted.value ->> 2
     AND e.series IS NOT NULL

-- name: passed_ahead (read)
-- Skipped events whose occurrence, by its rule, is still in the future. (An event that has given its name back is no
-- longer named by a date, so its name sorts after 'a'.)
SELECT {event} FROM events WHERE id IN (
    SELECT e.id FROM json_each(:rows) AS wanted CROSS JOIN events AS e
      ON e.series = wanted.value ->> 0 AND e.status = 'SKIPPED' AND e.series IS NOT NULL AND e.scheduled > wanted.value ->> 1
    WHERE e.occurrence < 'a'
)

-- name: free_names
INSERT INTO journal (subject, at, act, worker, version, detail, first, last)
SELECT e.id, :now, 'named again', :by, e.version, value ->> 4, value ->> 5, iif(value ->> 5 IS NULL, NULL, value ->> 2)
FROM json_each(:rows) JOIN events AS e ON e.id = value ->> 0;
UPDATE events SET occurrence = given.occurrence, scheduled = given.scheduled, stands_for = given.stands_for
FROM (SELECT value ->> 0 AS id, value ->> 1 AS occurrence, value ->> 2 AS scheduled, value ->> 3 AS stands_for
      FROM json_each(:rows)) AS given
WHERE events.id = given.id
RETURNING id

-- name: head
SELECT {event} FROM events WHERE series = :series AND head

-- name: head_id (read)
SELECT id FROM events WHERE series = :series AND head

-- name: reshape
-- Updates heads that have not started, in place, after a change of their schedules or users.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT e.id, :now, given.act, :by, e.version, given.detail FROM {reshape rows} JOIN events AS e ON e.id = given.id;
UPDATE events
SET {reshape from given}, held_for = NULL, ready = iif(given.held IS NULL, given.due, NULL)
FROM {reshape rows}
WHERE events.id = given.id
RETURNING id

-- name: get (read)
SELECT {event} FROM events WHERE id = :id

-- name: lock
SELECT {event} FROM events WHERE id = :id

-- name: change
-- An event that is changed while it is claimed has an expired lease: the end of that claim is recorded too.
INSERT INTO journal (subject, at, act, worker, version, claimed, detail)
SELECT id, :now, 'interrupted', worker, version, claimed, 'its worker vanished and the lease expired'
FROM events WHERE id = :id AND status = 'PROCESSING'
UNION ALL
SELECT id, :now, :act, :by, version, NULL, :detail FROM events WHERE id = :id;
UPDATE events
SET status = :status, due = :due, attempts = :attempts, unsettled = :interruptions,
    held = iif(:status IN ('PENDING', 'PROCESSING'), held, NULL),
    hold_kind = iif(:status IN ('PENDING', 'PROCESSING'), hold_kind, NULL),
    held_for = iif(:status IN ('PENDING', 'PROCESSING'), held_for, NULL),
    ready = iif(:status IN ('PENDING', 'PROCESSING') AND held IS NULL, max(:due, :now), NULL), head = :head
WHERE id = :id
RETURNING id

-- name: link_replay
UPDATE events SET replay_of = :old WHERE id = :new;
UPDATE events SET replayed_as = :new WHERE id = :old
RETURNING id

-- name: find (read)
SELECT {event} FROM events AS e WHERE ({where}) ORDER BY e.id DESC LIMIT :limit

-- name: page_bound (read)
-- The last event of those that a page examines, and the next one below it, if there is one.
SELECT e.id FROM events AS e WHERE ({where}) ORDER BY e.id DESC LIMIT 2 OFFSET :skipped

-- name: page_bound_of_all (read)
-- The last event of those that a page examines, of any tenant. Its id is rounded down, so that it reveals no other
-- tenant's id.
SELECT substr((SELECT id FROM events WHERE id < :before ORDER BY id DESC LIMIT 1 OFFSET :skipped), 1, 33) || '000'

-- name: find_dead (read)
SELECT e.id, e.version, e.via, iif(e.via IS NOT NULL OR e.lane = 'command', e.target, NULL), e.freed_key IS NOT NULL FROM events AS e
WHERE e.status = 'FAILED' AND e.id > :after AND ({where})
  AND coalesce((SELECT max(at) FROM journal WHERE subject = e.id), :since) <= :since
ORDER BY e.id LIMIT :limit

-- name: count_dead (read)
SELECT e.tenant, e.type, e.lane, e.destination, count(*), sum(count(*)) OVER ()
FROM events AS e WHERE e.status = 'FAILED' AND ({where})
GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4 NULLS LAST LIMIT :limit

-- name: replay_found
-- Dead letters that have not changed since they were found.
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT e.id, :now, 'replayed', :by, e.version,
       substr('after ' || e.attempts || ' attempts: ' || coalesce(e.last_error, ''), 1, :longest)
FROM json_each(:rows) JOIN events AS e ON e.id = value ->> 0 WHERE e.version = value ->> 1 AND +e.status = 'FAILED';
UPDATE events
SET status = 'PENDING', attempts = 0, unsettled = 0, ready = max(due, coalesce(given.ready, :now))
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version, value ->> 2 AS ready FROM json_each(:rows)) AS given
WHERE events.id = given.id AND events.version = given.version AND +events.status = 'FAILED'
RETURNING id, events.ready

-- name: discard_found
INSERT INTO journal (subject, at, act, worker, version, detail)
SELECT e.id, :now, 'discarded', :by, e.version, :detail
FROM json_each(:rows) JOIN events AS e ON e.id = value ->> 0 WHERE e.version = value ->> 1 AND +e.status = 'FAILED';
UPDATE events SET status = 'CANCELLED'
FROM (SELECT value ->> 0 AS id, value ->> 1 AS version FROM json_each(:rows)) AS given
WHERE events.id = given.id AND events.version = given.version AND +events.status = 'FAILED'
RETURNING id

-- name: history (read)
-- (The entry of the attempt that completed an event has no id: it is in the event's own row. Only replays follow it.)
SELECT {entry} FROM history WHERE subject = :subject ORDER BY act = 'replayed as', id NULLS LAST
LIMIT :limit OFFSET :skipped

-- name: overview (read)
SELECT lane, status, count(*), min(due) FROM events WHERE ready IS NOT NULL OR held IS NOT NULL OR status = 'FAILED'
GROUP BY lane, status ORDER BY lane, status

-- name: template (read)
SELECT {template} FROM templates WHERE tenant = :tenant AND name = :template

-- name: lock_template
SELECT {template} FROM templates WHERE tenant = :tenant AND name = :template

-- name: list_templates (read)
SELECT {template} FROM templates WHERE tenant = :tenant AND name > :after_name ORDER BY name LIMIT :limit

-- name: put_template
INSERT INTO templates ({put_template columns}, created, updated)
SELECT {put_template columns}, :now, :now FROM {put_template rows} WHERE true
ON CONFLICT (tenant, name) DO UPDATE SET {put_template from excluded}, updated = excluded.updated

-- name: delete_template
DELETE FROM templates WHERE tenant = :tenant AND name = :template
