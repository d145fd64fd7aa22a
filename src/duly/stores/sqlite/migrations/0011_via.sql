-- note: over HTTP, targets that are brokers or task queues are closed now: where tenants send to them, open their addresses
-- note: with DULY_BROKER_ALLOW, for servers and workers alike, such as redis:{tenant}:*.
-- How it came: 'http' over the HTTP API, NULL by code. What came over HTTP may name only the brokers' addresses that
-- DULY_BROKER_ALLOW opens, and workers ask this again before they send. What was there before counts as code's. (No
-- default: the column is added without a look at the rows, and takes no space in those of code.)
ALTER TABLE events ADD COLUMN via text;
ALTER TABLE schedules ADD COLUMN via text;
ALTER TABLE users ADD COLUMN via text;       -- its target
ALTER TABLE targets ADD COLUMN via text;
