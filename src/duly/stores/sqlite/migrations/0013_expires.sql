-- Microseconds after its due time: later than that, no attempt at an event begins.
ALTER TABLE events ADD COLUMN expires INTEGER;
