-- Timers that came over a broker, in the words of those who send them. Instants are text here, for people.
CREATE VIEW timer_schedules AS
SELECT tenant AS tenant_id, key AS service_call_id, strftime('%Y-%m-%dT%H:%M:%fZ', due / 1000000.0, 'unixepoch') AS due_at,
       CASE status WHEN 'PENDING' THEN 'Scheduled' WHEN 'PROCESSING' THEN 'Scheduled' WHEN 'COMPLETED' THEN 'Reached'
                   WHEN 'FAILED' THEN 'Failed' ELSE 'Cancelled' END AS state,
       strftime('%Y-%m-%dT%H:%M:%fZ', created / 1000000.0, 'unixepoch') AS registered_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', executed / 1000000.0, 'unixepoch') AS reached_at, correlation_id
FROM events
WHERE lane = 'timer' AND key IS NOT NULL;
