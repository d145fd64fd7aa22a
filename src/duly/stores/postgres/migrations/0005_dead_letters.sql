-- Dead letters in the order of their ids, whosever they are.
CREATE INDEX events_dead ON duly.events (id) WHERE status = 'FAILED';
