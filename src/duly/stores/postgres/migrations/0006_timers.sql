-- When somebody asked for it, in the order of the broker that brought the wish. Brokers bring some wishes again, later than
-- newer ones for the same key.
ALTER TABLE duly.events ADD COLUMN asked bigint;

-- What was cancelled stays so when the wish for it comes again.
CREATE INDEX events_withdrawn ON duly.events (tenant, key, asked) WHERE status = 'CANCELLED' AND asked IS NOT NULL;

-- Timers that came over a broker, in the words of those who send them; one for each key. (Without the WITH, PostgreSQL would
-- let those who may change events do so through this.)
CREATE VIEW duly.timer_schedules AS
WITH timers AS NOT MATERIALIZED (
    SELECT * FROM duly.events WHERE lane = 'timer' AND key IS NOT NULL AND status <> 'CANCELLED'
)
SELECT tenant AS tenant_id, key AS service_call_id, due AS due_at,
       CASE status WHEN 'COMPLETED' THEN 'Reached' WHEN 'FAILED' THEN 'Failed' ELSE 'Scheduled' END AS state,
       created AS registered_at, executed AS reached_at, correlation_id
FROM timers;
