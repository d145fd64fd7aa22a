-- note: workers delete finished events 90 days after they ended, with their history, from now on. To keep them longer, set
-- note: DULY_RETENTION for every worker before you start this version; `duly prune --dry-run` tells what would go.
-- What only one worker at a time does, and how far it has come.
CREATE TABLE upkeep (
    task    text PRIMARY KEY,
    worker  text NOT NULL,
    until   integer NOT NULL,               -- from then on, another worker may take it
    place   text NOT NULL
) STRICT, WITHOUT ROWID;
