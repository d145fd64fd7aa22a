-- When somebody asked for it, in the order of the broker that brought the wish. Brokers bring some wishes again, later than
-- newer ones for the same key.
ALTER TABLE events ADD COLUMN asked integer;

-- What was cancelled stays so when the wish for it comes again.
CREATE INDEX events_withdrawn ON events (tenant, key, asked) WHERE status = 'CANCELLED' AND asked IS NOT NULL;

-- Timers that came over a broker, in the words of those who send them; one for each key. Instants are text here, for people.
CREATE VIEW timer_schedules AS
SELECT tenant AS tenant_id, key AS service_call_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', due / 1000000.0, 'unixepoch') AS due_at,
       CASE status WHEN 'COMPLETED' THEN 'Reached' WHEN 'FAILED' THEN 'Failed' ELSE 'Scheduled' END AS state,
       strftime('%Y-%m-%dT%H:%M:%fZ', created / 1000000.0, 'unixepoch') AS registered_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', executed / 1000000.0, 'unixepoch') AS reached_at, correlation_id
FROM events
WHERE lane = 'timer' AND key IS NOT NULL AND status <> 'CANCELLED';
