-- Who is at work. Every worker updates its own row with each beat. (fillfactor: the next version of a row fits on its page.
-- No index has a column that a beat changes, so that no index changes either.)
CREATE TABLE duly.workers (
    name        text COLLATE "C" PRIMARY KEY,
    host        text NOT NULL,
    pid         bigint NOT NULL,
    version     text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('worker', 'tick')),
    lanes       json NOT NULL,                      -- those that it serves
    closed      json NOT NULL,                      -- those of them that it cannot serve at the moment, with the reasons
    started     timestamptz NOT NULL,
    seen        timestamptz NOT NULL,               -- the last beat
    last_pass   timestamptz,                        -- when its loop last completed a pass
    beat        bigint NOT NULL,                    -- microseconds between two beats
    pass_limit  bigint NOT NULL,                    -- microseconds that a pass takes at most
    draining    boolean NOT NULL,
    stopped     timestamptz                         -- when a tick ended; the rows of other workers are deleted then
) WITH (fillfactor = 50);

-- When a lane was last served, by workers that have no row any more.
CREATE TABLE duly.lanes (
    lane    text COLLATE "C" PRIMARY KEY,
    served  timestamptz NOT NULL
);

-- The role of the API has no privilege on these tables, and no row of them exists for it: hosts and the lanes of others are
-- told to no tenant.
ALTER TABLE duly.workers ENABLE ROW LEVEL SECURITY;
CREATE POLICY nobody ON duly.workers USING (NOT duly.confined());
ALTER TABLE duly.lanes ENABLE ROW LEVEL SECURITY;
CREATE POLICY nobody ON duly.lanes USING (NOT duly.confined());
