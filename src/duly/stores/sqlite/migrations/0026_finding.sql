-- Waiting events in the order of their due times. Only these: each event then costs one entry, when it is made.
CREATE INDEX events_waiting ON events (tenant, due, id) WHERE status = 'PENDING';

-- Users are found by the beginnings of their names, in either order. (lower() lowers A to Z alone.)
ALTER TABLE users ADD COLUMN first_last text AS (lower(first_name || ' ' || last_name)) VIRTUAL;
ALTER TABLE users ADD COLUMN last_first text AS (lower(last_name || ' ' || first_name)) VIRTUAL;
CREATE INDEX users_first_last ON users (first_last, tenant, id);
CREATE INDEX users_last_first ON users (last_first, tenant, id);
CREATE INDEX users_timezone ON users (timezone, tenant, id);
