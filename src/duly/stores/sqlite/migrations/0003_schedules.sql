-- What a schedule says beside its rule, and what its events have to tell of it.
ALTER TABLE schedules ADD COLUMN timezone text NOT NULL DEFAULT 'UTC';
ALTER TABLE schedules ADD COLUMN policies text;     -- what is not as usual
ALTER TABLE schedules ADD COLUMN origin   text;     -- the function that declares it

ALTER TABLE events ADD COLUMN scheduled integer;    -- the instant by the rule, before jitter and moves
ALTER TABLE events ADD COLUMN timezone  text;
ALTER TABLE events ADD COLUMN zone_data text;       -- the edition of the zone data that gave the instant
ALTER TABLE events ADD COLUMN gated     integer NOT NULL DEFAULT 0;  -- its end lets another one start

UPDATE events SET scheduled = due, timezone = 'UTC' WHERE series IS NOT NULL;

-- A schedule's events, the newest first, and when it last succeeded.
CREATE INDEX events_series ON events (series, id) WHERE series IS NOT NULL;
CREATE INDEX events_succeeded ON events (series, settled) WHERE series IS NOT NULL AND settled IS NOT NULL;

-- Where a schedule limits how many are under way: those that are, and those that wait for them to end.
CREATE INDEX events_under_way ON events (series) WHERE gated AND NOT head AND ready IS NOT NULL;
CREATE INDEX events_held ON events (series, due) WHERE held IS NOT NULL;

-- What newer zone data may move.
CREATE INDEX events_zone_data ON events (zone_data, id) WHERE head AND zone_data IS NOT NULL;
