-- Instants are text that sorts with datetime('now'), as `due_at <= datetime('now')` asks: a space and no T, milliseconds
-- where there are any, rounded up so that nothing looks due before it is.
DROP VIEW timer_schedules;
CREATE VIEW timer_schedules AS
SELECT tenant AS tenant_id, key AS service_call_id,
       replace(strftime('%Y-%m-%d %H:%M:%f', (due + iif(due > 0, 999, 0)) / 1000 / 1000.0, 'unixepoch'), '.000', '') AS due_at,
       CASE status WHEN 'COMPLETED' THEN 'Reached' WHEN 'FAILED' THEN 'Failed' ELSE 'Scheduled' END AS state,
       replace(strftime('%Y-%m-%d %H:%M:%f', created / 1000 / 1000.0, 'unixepoch'), '.000', '') AS registered_at,
       replace(strftime('%Y-%m-%d %H:%M:%f', executed / 1000 / 1000.0, 'unixepoch'), '.000', '') AS reached_at,
       correlation_id
FROM events
WHERE lane = 'timer' AND key IS NOT NULL AND status <> 'CANCELLED';
