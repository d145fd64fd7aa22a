-- note: workers count what ends, from now on. Runs that ended before are in no statistics.
-- Runs that ended and are not rolled up yet. The transaction that ends an event writes here too, in one row for all of its
-- events that are alike, and a worker deletes the rows as it adds them up.
CREATE TABLE ended_runs (
    at          integer NOT NULL,
    tenant      text NOT NULL,
    schedule    text,                       -- its id
    type        text NOT NULL,
    lane        text NOT NULL,
    status      text NOT NULL CHECK (status IN ('COMPLETED', 'FAILED', 'SKIPPED')),
    duration    real,                       -- seconds from the claim to the end, about; NULL: it never ran
    lateness    real,                       -- seconds from the due time to the claim
    many        integer NOT NULL
) STRICT;

-- Runs by hour and by day: those of a schedule, and, where `schedule` is empty, all of a type and lane.
CREATE TABLE roll_ups (
    schedule    text NOT NULL,
    tenant      text NOT NULL,
    span        text NOT NULL CHECK (span IN ('hour', 'day')),
    begins      integer NOT NULL,           -- UTC
    type        text NOT NULL,
    lane        text NOT NULL,
    completed   integer NOT NULL,
    failed      integer NOT NULL,
    skipped     integer NOT NULL,
    duration    text NOT NULL,              -- how many runs each bucket has, as JSON
    lateness    text NOT NULL,
    PRIMARY KEY (schedule, tenant, span, begins, type, lane)
) STRICT, WITHOUT ROWID;
CREATE INDEX roll_ups_begins ON roll_ups (span, begins);

-- An end that is not a completion has an entry in the journal, which these read: it cannot be forgotten. (Two, other than on
-- PostgreSQL: a trigger runs before the statement has ended, and entries are written before the event. Whether a failure was
-- the last one is seen at the event; a skipped one is always skipped.)
CREATE TRIGGER count_skipped_run AFTER INSERT ON journal WHEN new.act IN ('skipped', 'shadowed') BEGIN
    INSERT INTO ended_runs (at, tenant, schedule, type, lane, status, duration, lateness, many)
    SELECT new.at, tenant, iif(series LIKE 'schedule:%', substr(series, 10), NULL), type, lane, 'SKIPPED', NULL, NULL, 1
    FROM events WHERE id = new.subject;
END;
CREATE TRIGGER count_failed_run AFTER UPDATE OF status ON events WHEN new.status = 'FAILED' AND old.status <> 'FAILED' BEGIN
    INSERT INTO ended_runs (at, tenant, schedule, type, lane, status, duration, lateness, many)
    SELECT at, new.tenant, iif(new.series LIKE 'schedule:%', substr(new.series, 10), NULL), new.type, new.lane, 'FAILED',
           max(at - claimed, 0) / 1e6, max(claimed - new.due, 0) / 1e6, 1
    FROM journal WHERE subject = new.id ORDER BY id DESC LIMIT 1;
END;
