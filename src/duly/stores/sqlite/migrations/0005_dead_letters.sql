-- Dead letters in the order of their ids, whosever they are.
CREATE INDEX events_dead ON events (id) WHERE status = 'FAILED';
