-- Nothing: SQLite's claim is several statements, which need an index of what the first has taken. Both stores have the
-- same versions.
SELECT 1;
