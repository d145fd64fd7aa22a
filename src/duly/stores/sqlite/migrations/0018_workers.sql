-- Who is at work. Every worker updates its own row with each beat.
CREATE TABLE workers (
    name        text PRIMARY KEY,
    host        text NOT NULL,
    pid         integer NOT NULL,
    version     text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('worker', 'tick')),
    lanes       text NOT NULL,                      -- those that it serves
    closed      text NOT NULL,                      -- those of them that it cannot serve at the moment, with the reasons
    started     integer NOT NULL,
    seen        integer NOT NULL,                   -- the last beat
    last_pass   integer,                            -- when its loop last completed a pass
    beat        integer NOT NULL,                   -- microseconds between two beats
    pass_limit  integer NOT NULL,                   -- microseconds that a pass takes at most
    draining    integer NOT NULL,
    stopped     integer                             -- when a tick ended; the rows of other workers are deleted then
) STRICT, WITHOUT ROWID;

-- When a lane was last served, by workers that have no row any more.
CREATE TABLE lanes (
    lane    text PRIMARY KEY,
    served  integer NOT NULL
) STRICT, WITHOUT ROWID;
