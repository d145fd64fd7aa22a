-- What a schedule says beside its rule, and what its events have to tell of it.
ALTER TABLE duly.schedules
    ADD COLUMN timezone text COLLATE "C" NOT NULL DEFAULT 'UTC',
    ADD COLUMN policies json,                       -- what is not as usual
    ADD COLUMN origin   text;                       -- the function that declares it

ALTER TABLE duly.events
    ADD COLUMN scheduled timestamptz,               -- the instant by the rule, before jitter and moves
    ADD COLUMN timezone  text COLLATE "C",
    ADD COLUMN zone_data text COLLATE "C",          -- the edition of the zone data that gave the instant
    ADD COLUMN gated     boolean NOT NULL DEFAULT false;  -- its end lets another one start

UPDATE duly.events SET scheduled = due, timezone = 'UTC' WHERE series IS NOT NULL;

-- A schedule's events, the newest first, and when it last succeeded.
CREATE INDEX events_series ON duly.events (series, id) WHERE series IS NOT NULL;
CREATE INDEX events_succeeded ON duly.events (series, settled) WHERE series IS NOT NULL AND settled IS NOT NULL;

-- Where a schedule limits how many are under way: those that are, and those that wait for them to end.
CREATE INDEX events_under_way ON duly.events (series) WHERE gated AND NOT head AND ready IS NOT NULL;
CREATE INDEX events_held ON duly.events (series, due) WHERE held IS NOT NULL;

-- What newer zone data may move.
CREATE INDEX events_zone_data ON duly.events (zone_data, id) WHERE head AND zone_data IS NOT NULL;
