-- Nothing: SQLite's triggers lock no rows. Both stores have the same versions.
SELECT 1;
