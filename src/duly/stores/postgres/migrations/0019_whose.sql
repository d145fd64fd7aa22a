-- An event tells whose it is: the name of its schedule, or the key of its user. It is stored with the event, so that neither
-- the claim nor a delivery has to look for it.
ALTER TABLE duly.events ADD COLUMN owner text COLLATE "C";
UPDATE duly.events AS e SET owner = s.name
FROM duly.schedules AS s WHERE e.series LIKE 'schedule:%' AND substr(e.series, 10) = s.id::text;
UPDATE duly.events AS e SET owner = u.key
FROM duly.users AS u WHERE e.series LIKE 'user:%' AND substr(e.series, 6, 36) = u.id::text AND u.key IS NOT NULL;
