-- note: admin keys that were made before may still name any tenant: they have the mark all-tenants now. See them with
-- note: `duly keys list`, and replace those that need only their own tenant. An admin key that is made from now on has
-- note: its own tenant alone, unless it is made with --all-tenants.
ALTER TABLE duly.api_keys ADD COLUMN all_tenants boolean NOT NULL DEFAULT false;
UPDATE duly.api_keys SET all_tenants = true WHERE scope = 'admin';
INSERT INTO duly.journal (subject, at, act, worker, detail)
SELECT id, now(), 'changed', 'duly migrate', 'all-tenants, as before for every admin key'
FROM duly.api_keys WHERE all_tenants;
