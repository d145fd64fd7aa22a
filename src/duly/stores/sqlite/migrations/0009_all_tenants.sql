-- note: admin keys that were made before may still name any tenant: they have the mark all-tenants now. See them with
-- note: `duly keys list`, and replace those that need only their own tenant. An admin key that is made from now on has
-- note: its own tenant alone, unless it is made with --all-tenants.
ALTER TABLE api_keys ADD COLUMN all_tenants integer NOT NULL DEFAULT 0 CHECK (all_tenants IN (0, 1));
UPDATE api_keys SET all_tenants = 1 WHERE scope = 'admin';
INSERT INTO journal (subject, at, act, worker, detail)
SELECT id, CAST(strftime('%s', 'now') AS integer) * 1000000, 'changed', 'duly migrate', 'all-tenants, as before for every admin key'
FROM api_keys WHERE all_tenants = 1;
