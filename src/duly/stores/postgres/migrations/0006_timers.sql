-- Timers that came over a broker, in the words of those who send them.
CREATE VIEW duly.timer_schedules AS
SELECT tenant AS tenant_id, key AS service_call_id, due AS due_at,
       CASE status WHEN 'PENDING' THEN 'Scheduled' WHEN 'PROCESSING' THEN 'Scheduled' WHEN 'COMPLETED' THEN 'Reached'
                   WHEN 'FAILED' THEN 'Failed' ELSE 'Cancelled' END AS state,
       created AS registered_at, executed AS reached_at, correlation_id
FROM duly.events
WHERE lane = 'timer' AND key IS NOT NULL;
