-- Deleting finished events. Some outlive their retention, because something is known from their rows alone:
--
-- * a dead letter (FAILED), until somebody replays or discards it;
-- * of a series that still exists: every occurrence that is not before the next event, and every one whose instant by the
--   rule is not over for as long as the retention, and for two days where it is named by a local time, which an edit of the
--   time zone makes future again: no occurrence is planned twice, not even after an edit;
-- * the last run and the last success of a schedule: `depends_on` and lists go by them;
-- * that a user's series was given up, while it has no next event;
-- * for DULY_KEY_MEMORY: occurrences that were backfilled, which the same backfill does not fill again, and timers from a
--   broker that were cancelled, which the same command does not create again.
--
-- A key that has fired moves to `fired_keys`: see delete_ended. Pauses, halts and the history of schedules, users and
-- targets are not in rows of events.

-- fragment: of_rule
-- Whether its name is that of an occurrence by the rule: it is a date or an instant.
e.occurrence < 'a'

-- fragment: over
-- Occurrences until then are over for as long as the retention.
CASE WHEN e.occurrence LIKE '%Z' THEN e.before ELSE least(e.before, {now} - interval '48 hours') END

-- fragment: owner_id
-- The schedule or user whose series this is; empty if that was deleted. (Scalar subqueries, here and below, run for each
-- row: the planner might turn EXISTS into a hash of the whole table.)
coalesce((SELECT s.id FROM duly.schedules AS s WHERE s.id = {schedule_id}),
         (SELECT u.id FROM duly.users AS u WHERE u.id = {user_id}))

-- fragment: next_of_series
(SELECT least(n.due, n.scheduled) FROM duly.events AS n WHERE n.series = e.series AND n.head)

-- name: prunable (read)
-- The next events by id, of those that may be deleted: there is no index of finished events, which each settlement would
-- have to write. (The last run is looked up once for each schedule: there may be many skipped events after it.) The first
-- two columns are the last of the events that were looked at,
-- and when the oldest of them was created.
WITH cutoffs AS MATERIALIZED (
    SELECT * FROM unnest(:status::text[], :type::text[], :before::timestamptz[]) AS cutoffs (status, type, before)
), page AS MATERIALIZED (
    SELECT id, status, type, series, occurrence, rule IS NOT NULL AS ruled, key IS NOT NULL AND asked IS NOT NULL AS asked,
           due, coalesce(scheduled, due) AS scheduled, claimed, settled, created
    FROM duly.events WHERE id > :after::uuid ORDER BY id LIMIT :limit
), finished AS MATERIALIZED (
    SELECT page.*,
           coalesce(settled, (SELECT max(at) FROM duly.journal WHERE subject = page.id), claimed, created) AS ended,
           coalesce((SELECT before FROM cutoffs WHERE cutoffs.type = page.type),
                    (SELECT before FROM cutoffs WHERE cutoffs.status = page.status),
                    (SELECT before FROM cutoffs WHERE cutoffs.status = '' AND cutoffs.type = '')) AS before
    FROM page WHERE status IN ('COMPLETED', 'CANCELLED', 'SKIPPED') AND created <= (SELECT max(before) FROM cutoffs)
), last_runs AS MATERIALIZED (
    SELECT ran.series, (SELECT n.id FROM duly.events AS n WHERE n.series = ran.series AND n.rule IS NULL AND n.claimed IS NOT NULL
                        AND NOT n.head AND n.status <> 'SKIPPED' ORDER BY n.id DESC LIMIT 1) AS id
    FROM (SELECT DISTINCT series FROM finished
          WHERE series IS NOT NULL AND NOT ruled AND claimed IS NOT NULL AND status <> 'SKIPPED' AND ended <= before) AS ran
), found AS MATERIALIZED (
    SELECT e.id, e.status, e.type, e.ended FROM finished AS e
    WHERE CASE
        WHEN e.ended > e.before THEN false
        WHEN e.status = 'CANCELLED' AND e.asked AND e.ended > {now} - :memory::bigint * {us} THEN false
        WHEN e.series IS NULL OR {owner_id} IS NULL THEN true
        WHEN e.occurrence >= 'backfill:' AND e.occurrence < 'backfill;' AND e.ended > {now} - :memory::bigint * {us} THEN false
        WHEN {of_rule} AND (e.scheduled > {over} OR e.scheduled >= {next_of_series})
            THEN false
        WHEN e.ruled THEN NOT (e.occurrence >= 'given up ' AND e.occurrence < 'given up!' AND {next_of_series} IS NULL)
        WHEN e.settled = (SELECT max(n.settled) FROM duly.events AS n
                          WHERE n.series = e.series AND n.rule IS NULL AND n.settled IS NOT NULL) THEN false
        WHEN e.status = 'SKIPPED' OR e.claimed IS NULL THEN true
        ELSE e.id IS DISTINCT FROM (SELECT last_runs.id FROM last_runs WHERE last_runs.series = e.series)
    END
)
SELECT last.id::text, (SELECT min(created) FROM page), found.id::text, found.status, found.type, found.ended
FROM (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last LEFT JOIN found ON true

-- name: take_upkeep
INSERT INTO duly.upkeep AS u (task, worker, until, place)
VALUES (:task, :worker, {now} + :lease::bigint * {us}, coalesce(:place::text, ''))
ON CONFLICT (task) DO UPDATE SET worker = excluded.worker, until = excluded.until, place = coalesce(:place::text, u.place)
WHERE u.worker = excluded.worker OR u.until <= {now}
RETURNING place
