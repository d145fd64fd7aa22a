-- Tags of a schedule: a sorted list of short names, by which people select schedules. NULL: it has none.
ALTER TABLE duly.schedules ADD COLUMN tags json CHECK (json_typeof(tags) = 'array');
