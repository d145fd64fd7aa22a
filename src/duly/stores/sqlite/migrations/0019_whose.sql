-- An event tells whose it is: the name of its schedule, or the key of its user. It is stored with the event, so that neither
-- the claim nor a delivery has to look for it.
ALTER TABLE events ADD COLUMN owner text;
UPDATE events SET owner = (SELECT name FROM schedules WHERE id = substr(series, 10)) WHERE series LIKE 'schedule:%';
UPDATE events SET owner = (SELECT key FROM users WHERE id = substr(series, 6, 36)) WHERE series LIKE 'user:%';
