-- Instants are timestamps here, which compare with now() as they are: only SQLite's view has changed.
COMMENT ON VIEW duly.timer_schedules IS
    'Timers that came over a broker: what is due is WHERE state = ''Scheduled'' AND due_at <= now()';
