-- When somebody asked a running event to stop. It ends CANCELLED, unless its handler has completed first.
ALTER TABLE duly.events ADD COLUMN stop_requested timestamptz;

-- A worker finds its own events here that were asked to stop.
CREATE INDEX events_stopping ON duly.events (worker) WHERE stop_requested IS NOT NULL AND status = 'PROCESSING';

-- The cancelled timers of a key: the key names the latest of them until it is used again. A repeated request finds here that
-- its timer was cancelled, for which there was another index before.
CREATE INDEX events_cancelled_key ON duly.events (tenant, key, id) WHERE key IS NOT NULL AND status = 'CANCELLED';
DROP INDEX duly.events_withdrawn;
