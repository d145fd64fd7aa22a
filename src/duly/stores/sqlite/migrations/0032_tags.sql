-- Tags of a schedule: a sorted list of short names, by which people select schedules. NULL: it has none.
ALTER TABLE schedules ADD COLUMN tags text CHECK (json_type(tags) = 'array');
