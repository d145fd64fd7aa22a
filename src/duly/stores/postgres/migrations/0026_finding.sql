-- note: It writes the table of users anew: about ten seconds for a million of them, while none can be added or changed.
-- Waiting events in the order of their due times. Only these: each event then costs one entry, when it is made. An index of
-- all events would cost another one at its claim, and another at its end. (The second condition is always true. It keeps the
-- index from queries that do not have it: by a plan that was made for an empty table, they would read all waiting events.)
CREATE INDEX events_waiting ON duly.events (tenant, due, id) WHERE status = 'PENDING' AND due > '-infinity';

-- Users are found by the beginnings of their names, in either order. (Columns, because row-level security does not let an
-- index of expressions be used. COLLATE "C" lowers A to Z alone, as SQLite does: both stores find the same users.)
ALTER TABLE duly.users
    ADD COLUMN first_last text COLLATE "C" GENERATED ALWAYS AS (lower((first_name || ' ' || last_name) COLLATE "C")) STORED,
    ADD COLUMN last_first text COLLATE "C" GENERATED ALWAYS AS (lower((last_name || ' ' || first_name) COLLATE "C")) STORED;
-- Of one column each: while the table is empty, all plans cost the same, and the planner takes the index that was made last,
-- also to find a user by the id, if the index has it.
CREATE INDEX users_first_last ON duly.users (first_last);
CREATE INDEX users_last_first ON duly.users (last_first);
CREATE INDEX users_timezone ON duly.users (timezone);
