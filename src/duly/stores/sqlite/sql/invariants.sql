-- Rules that hold for the rows after every commit, no matter which process wrote them. Each query returns the rows that
-- break its rule: their kind, their id, and a sentence that continues after the id. No query reads the clock, and each
-- one sees a single snapshot of the database, so commits of workers meanwhile cause no false alarms. An event is ended,
-- claimable, leased, or held for a reason whose end releases it. Each query reads at most :examine rows, of events the
-- newest (-1: all of them), and returns at most :most.

-- fragment: newest
(SELECT id, status, due, ready, version, attempts, unsettled, series, occurrence, head, held, hold_kind, held_for,
        claimed, executed, settled, worker, scheduled, next_state, next_scheduled, rule,
        key, freed_key FROM events ORDER BY id DESC LIMIT :examine)

-- name: examined (read)
SELECT count(*) FROM (SELECT 1 FROM events LIMIT :examine)

-- name: columns_agree (read)
-- The columns of one event agree with each other. (`unsettled` counts the current claim, and claims that a crash
-- ended.)
SELECT 'event', id, told FROM (
    SELECT id, CASE
        WHEN status NOT IN ('PENDING', 'PROCESSING') AND ready IS NOT NULL THEN 'has ended, and would be claimed again'
        WHEN status NOT IN ('PENDING', 'PROCESSING') AND held IS NOT NULL THEN 'has ended, and is held'
        WHEN (held IS NULL) <> (hold_kind IS NULL) THEN 'has a sentence of why it is held and no kind of it, or a kind alone'
        WHEN coalesce(hold_kind = 'target', false) <> (held_for IS NOT NULL)
            THEN 'says which target it is held for only if it is held for one, and here that is not so'
        WHEN status NOT IN ('PENDING', 'PROCESSING') AND head THEN 'has ended, and is still the next one of its series'
        WHEN status NOT IN ('PENDING', 'PROCESSING') AND status <> 'COMPLETED' AND (settled IS NOT NULL OR executed IS NOT NULL)
            THEN 'has not been delivered, and says when it was'
        WHEN status = 'COMPLETED' AND (settled IS NULL OR executed IS NULL OR claimed IS NULL OR worker IS NULL)
            THEN 'has been delivered, and does not say when or by whom'
        WHEN status = 'COMPLETED' AND executed < due THEN 'was delivered before it was due'
        WHEN status IN ('PENDING', 'PROCESSING') AND (settled IS NOT NULL OR executed IS NOT NULL)
            THEN 'has not been delivered, and says when it was'
        WHEN status IN ('PENDING', 'PROCESSING') AND ready IS NULL AND held IS NULL
            THEN 'is neither ready nor held: nobody will ever claim it'
        WHEN status IN ('PENDING', 'PROCESSING') AND ready IS NOT NULL AND held IS NOT NULL THEN 'is ready, and is held'
        WHEN status IN ('PENDING', 'PROCESSING') AND ready < due THEN 'would be claimed before it is due'
        WHEN key IS NOT NULL AND freed_key IS NOT NULL THEN 'has its key, and a later event has taken it'
        WHEN status = 'PROCESSING' AND held IS NOT NULL THEN 'is claimed, and is held'
        WHEN status = 'PROCESSING' AND (worker IS NULL OR claimed IS NULL) THEN 'is claimed, and does not say when or by whom'
        WHEN status = 'PROCESSING' AND unsettled < 1 THEN 'is claimed, and would be claimed as if it was not'
        WHEN status = 'PROCESSING' AND head THEN 'is claimed, and is still the next one of its series'
        WHEN head AND (attempts > 0 OR unsettled > 0) THEN 'is the next one of its series, and has begun'
        WHEN head AND (series IS NULL OR occurrence IS NULL OR scheduled IS NULL)
            THEN 'is the next one, and does not say of which series'
        WHEN head AND next_state = 'planted' THEN 'is the next one of its series, and its successor was planted already'
        WHEN head AND next_state = 'known' AND next_scheduled <= scheduled
            THEN 'is the next one of its series, and is followed by one that is not later'
        WHEN attempts < 0 OR unsettled < 0 THEN 'was settled more often than it was claimed'
        WHEN version < 1 + attempts + unsettled
            THEN 'was claimed ' || (version - 1) || ' times, and tried or interrupted ' || (attempts + unsettled) || ' times'
        WHEN (coalesce(series, '') LIKE 'user:%') <> (rule IS NOT NULL)
            THEN 'carries a rule only if it is of a user''s series, and here that is not so'
    END AS told FROM {newest}
) WHERE told IS NOT NULL LIMIT :most

-- name: holds_have_reasons (read)
-- Every held event has a reason that will be lifted. An open destination for which events are still held is marked by
-- its `since`: if the worker that releases them dies, another one continues. Of events that wait for another one of
-- their schedule to end, the next one itself may be released first: it counts as under way until it is claimed, as its
-- history shows.
WITH waiting AS MATERIALIZED (
    SELECT id, tenant, series, held, hold_kind, held_for, destination FROM events WHERE held IS NOT NULL LIMIT :examine
), under_way AS MATERIALIZED (
    SELECT series,
           (SELECT count(*) FROM events AS e WHERE e.series = w.series AND e.gated AND NOT e.head AND e.ready IS NOT NULL)
           + (SELECT count(*) FROM events AS e
              WHERE e.series = w.series AND e.held IS NOT NULL AND e.hold_kind = 'target' AND e.gated AND NOT e.head)
           + (SELECT count(*) FROM events AS e WHERE e.series = w.series AND e.head AND e.ready IS NOT NULL
              AND (SELECT act FROM journal WHERE subject = e.id ORDER BY id DESC LIMIT 1) = 'released') AS many
    FROM (SELECT DISTINCT series FROM waiting WHERE hold_kind = 'limit') AS w
), told AS (
    SELECT w.id, CASE
        WHEN w.hold_kind = 'paused' AND s.id IS NULL THEN 'and has no schedule that could be resumed'
        WHEN w.hold_kind = 'paused' AND s.enabled THEN 'and its schedule is not'
        WHEN w.hold_kind = 'paused' THEN NULL
        WHEN w.hold_kind = 'limit' AND s.id IS NULL THEN 'and has no schedule that could let it go'
        WHEN w.hold_kind = 'limit' AND s.room IS NULL THEN 'and its schedule has no limit'
        WHEN w.hold_kind = 'limit' AND u.many < s.room THEN 'and ' || u.many || ' of at most ' || s.room || ' are under way'
        WHEN w.hold_kind = 'limit' THEN NULL
        WHEN w.hold_kind = 'target' AND d.since IS NULL THEN 'and that is not parked'
        WHEN w.hold_kind = 'target' AND substr(d.destination, 1, coalesce(length(w.destination), 0)) IS NOT w.destination
            THEN 'and goes to ' || coalesce(w.destination, 'no target')
        WHEN w.hold_kind = 'target' THEN NULL
        ELSE 'which nothing ever ends'
    END AS wrong, w.held
    FROM waiting AS w
    LEFT JOIN (
        SELECT id, enabled, CASE WHEN json_valid(policies) THEN coalesce(
                   policies ->> '$.max_concurrent', iif(coalesce(policies ->> '$.overlap', 'allow') = 'allow', NULL, 1)
               ) END AS room
        FROM schedules
    ) AS s ON s.id = iif(w.series LIKE 'schedule:%', substr(w.series, 10), NULL)
    LEFT JOIN under_way AS u ON u.series = w.series
    LEFT JOIN destinations AS d ON d.tenant = w.tenant AND d.destination = w.held_for
)
SELECT 'event', id, 'is held as "' || held || '", ' || wrong FROM told WHERE wrong IS NOT NULL LIMIT :most

-- name: schedules_go_on (read)
-- A schedule has a next event, or a reason why none follows: it has ended, or its rule raised an error. (If newer zone
-- data breaks a rule, its error is stored beside the event that was planned before.)
SELECT 'schedule', id, '(' || name || ') ' || told FROM (
    SELECT s.id, s.name, CASE
        WHEN s.enabled AND s.halt_kind = 'paused' THEN 'is halted as paused, and is not'
        WHEN NOT s.enabled AND s.halt_kind IS NULL THEN 'is paused, and does not say so'
        WHEN NOT s.enabled AND s.paused_since IS NULL THEN 'is paused, and does not say since when'
        WHEN s.enabled AND coalesce(CASE WHEN s.paused_until IS NOT NULL THEN 'until' END, s.pause_reason, s.pause_passed) IS NOT NULL
            THEN 'is not paused, and says until when or why'
        WHEN (s.halted IS NULL) <> (s.halt_kind IS NULL)
            THEN 'has a sentence of why it is halted and no kind of it, or a kind alone'
        WHEN h.id IS NULL AND coalesce(s.halt_kind, 'paused') = 'paused'
            THEN 'has no next event, and does not say why'
        WHEN h.id IS NOT NULL AND s.halt_kind = 'ended' THEN 'has ended, and has a next event'
    END AS told
    FROM (SELECT id, name, enabled, halted, halt_kind, paused_since, paused_until, pause_reason, pause_passed FROM schedules ORDER BY id DESC LIMIT :examine) AS s
    LEFT JOIN events AS h ON h.series = 'schedule:' || s.id AND h.head
) WHERE told IS NOT NULL LIMIT :most

-- name: users_go_on (read)
-- A user's series that has begun has a next event, or the user's history says why none follows, or its last event was
-- given up, because the user no longer has such an event. (Only programs know which types of events a user should
-- have. An entry from before migration 14 does not say which series it is about.)
SELECT 'user', u.id, 'has events of "' || substr(e.series, 43) || '", no next one, and no reason why'
FROM (SELECT DISTINCT series FROM {newest} WHERE series LIKE 'user:%') AS e
JOIN users AS u ON u.id = substr(e.series, 6, 36)
WHERE NOT EXISTS (SELECT 1 FROM events AS h WHERE h.series = e.series AND h.head)
  AND NOT EXISTS (SELECT 1 FROM events AS g WHERE g.series = e.series AND g.series IS NOT NULL
                  AND g.occurrence >= 'given up ' AND g.occurrence < 'given up!')
  AND NOT EXISTS (SELECT 1 FROM journal AS j WHERE j.subject = u.id AND j.act = 'halted'
                  AND (j.series = e.series OR j.series IS NULL))
LIMIT :most

-- name: heads_have_owners (read)
SELECT 'event', id, told FROM (
    SELECT e.id, CASE
        WHEN e.series LIKE 'schedule:%' THEN iif(s.id IS NULL, 'is the next one of a schedule that does not exist', NULL)
        WHEN e.series LIKE 'user:%' THEN iif(u.id IS NULL, 'is the next one of a user who does not exist', NULL)
        ELSE 'is the next one of "' || coalesce(e.series, '') || '", which is no series of a schedule or a user'
    END AS told
    FROM {newest} AS e
    LEFT JOIN schedules AS s ON s.id = substr(e.series, 10)
    LEFT JOIN users AS u ON u.id = substr(e.series, 6, 36)
    WHERE e.head
) WHERE told IS NOT NULL LIMIT :most

-- name: occurrences_are_unique (read)
-- No two events are the same occurrence. The unique indexes enforce it, as long as they exist. (Not a self-join of the
-- events: with a plan that was made for a small table, it would compare each event with every other.)
SELECT 'event', e.id, 'is the same occurrence of its series as event ' || e.other
FROM (
    SELECT id, coalesce(lag(id) OVER same, lead(id) OVER same) AS other FROM {newest} AS e
    WHERE series IS NOT NULL AND occurrence IS NOT NULL WINDOW same AS (PARTITION BY series, occurrence ORDER BY id)
) AS e WHERE e.other IS NOT NULL
UNION ALL
SELECT 'event', e.id, 'is the next one of its series, and so is event ' || e.other
FROM (
    SELECT id, coalesce(lag(id) OVER same, lead(id) OVER same) AS other FROM {newest} AS e
    WHERE series IS NOT NULL AND head WINDOW same AS (PARTITION BY series ORDER BY id)
) AS e WHERE e.other IS NOT NULL
LIMIT :most

-- name: counts_agree_with_history (read)
-- The counts of attempts and interruptions since the last replay agree with the history. (A delivered event is itself
-- the history of that attempt.)
SELECT 'event', id, CASE
    WHEN attempts <> attempted THEN 'counts ' || attempts || ' attempts, and its history has ' || attempted
    WHEN interruptions <> interrupted
        THEN 'counts ' || interruptions || ' interruptions, and its history has ' || interrupted
END FROM (
    SELECT e.id, e.attempts, e.unsettled - (e.status = 'PROCESSING') AS interruptions,
           (e.status = 'COMPLETED') + (SELECT count(j.attempt) FROM journal AS j WHERE j.subject = e.id AND j.id > e.replayed)
               AS attempted,
           (SELECT count(*) FROM journal AS j WHERE j.subject = e.id AND j.id > e.replayed AND j.act = 'interrupted')
               AS interrupted
    FROM (SELECT n.id, n.status, n.attempts, n.unsettled,
                 coalesce((SELECT max(j.id) FROM journal AS j WHERE j.subject = n.id AND j.act = 'replayed'), 0) AS replayed
          FROM {newest} AS n WHERE n.version > 1) AS e
) WHERE attempts <> attempted OR interruptions <> interrupted LIMIT :most

-- name: ends_are_in_history (read)
SELECT 'event', id, 'is ' || status || ', and its history does not say why' FROM {newest} AS e
WHERE status IN ('FAILED', 'CANCELLED', 'SKIPPED') AND NOT EXISTS (
    SELECT 1 FROM journal AS j WHERE j.subject = e.id AND j.version = e.version AND j.act IN (
        iif(e.status = 'FAILED', 'failed', NULL), iif(e.status = 'FAILED', 'rejected', NULL),
        iif(e.status = 'CANCELLED', 'cancelled', NULL), iif(e.status = 'CANCELLED', 'discarded', NULL),
        iif(e.status = 'SKIPPED', 'skipped', NULL), iif(e.status = 'SKIPPED', 'shadowed', NULL)
    )
) LIMIT :most

-- name: claims_end_once (read)
-- A claim ends only once: every end requires its version, so a second one finds no claim to end.
SELECT 'event', id, told FROM (
    SELECT e.id, CASE
        WHEN EXISTS (SELECT 1 FROM journal AS j WHERE j.subject = e.id AND j.version > e.version)
            THEN 'has a history of claims that it does not count'
        WHEN EXISTS (SELECT 1 FROM journal AS j WHERE j.subject = e.id AND j.claimed IS NOT NULL
                     GROUP BY j.version HAVING count(*) > 1)
          OR (e.settled IS NOT NULL AND EXISTS (SELECT 1 FROM journal AS j WHERE j.subject = e.id AND j.version = e.version
                                                AND j.claimed IS NOT NULL))
            THEN 'has a claim that ended twice'
    END AS told FROM {newest} AS e WHERE e.version > 1
) WHERE told IS NOT NULL LIMIT :most

-- name: parked_are_tried (read)
SELECT 'destination', destination, 'of tenant "' || tenant || '" ' || iif(
    parked IS NULL, 'is to be tried, and is not parked', 'is parked, and nothing would ever open it: it does not say since when'
) FROM (SELECT * FROM destinations LIMIT :examine)
WHERE (parked IS NOT NULL AND since IS NULL) OR (parked IS NULL AND probe_at IS NOT NULL) LIMIT :most

-- name: keys_are_remembered_once (read)
-- The key of a deleted event is remembered until another event has it.
SELECT 'event', e.id, 'has the key "' || e.key || '", which is still remembered of event ' || f.id
FROM (SELECT * FROM fired_keys LIMIT :examine) AS f
JOIN events AS e ON e.tenant = f.tenant AND e.key = f.key AND e.key IS NOT NULL AND e.status <> 'CANCELLED'
LIMIT :most
