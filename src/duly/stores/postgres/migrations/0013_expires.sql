-- Microseconds after its due time: later than that, no attempt at an event begins.
ALTER TABLE duly.events ADD COLUMN expires bigint;
