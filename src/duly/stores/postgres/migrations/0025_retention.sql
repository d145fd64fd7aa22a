-- note: workers delete finished events 90 days after they ended, with their history, from now on. To keep them longer, set
-- note: DULY_RETENTION for every worker before you start this version; `duly prune --dry-run` tells what would go.
-- What only one worker at a time does, and how far it has come. (fillfactor: the next version of a row fits on its page.)
CREATE TABLE duly.upkeep (
    task    text COLLATE "C" PRIMARY KEY,
    worker  text NOT NULL,
    until   timestamptz NOT NULL,           -- from then on, another worker may take it
    place   text NOT NULL
) WITH (fillfactor = 50);

ALTER TABLE duly.upkeep ENABLE ROW LEVEL SECURITY;
CREATE POLICY nobody ON duly.upkeep USING (NOT duly.confined());

-- Autovacuum begins when a fiftieth of the rows has changed, not a fifth: each event is updated twice and deleted once, and
-- the claim's index is read past the entries of dead rows until then. It pauses less, so that it ends before as many rows
-- again are dead.
ALTER TABLE duly.events SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1
);
ALTER TABLE duly.journal SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);
ALTER TABLE duly.fired_keys SET (autovacuum_vacuum_scale_factor = 0.05);
