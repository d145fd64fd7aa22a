-- The roles that row-level security confines to one tenant: duly_api, and others that DULY_API_ROLE names. Names are only
-- ever added: a server may still run under one that another server does not use any more.
CREATE FUNCTION duly.api_roles() RETURNS name[] LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT '{duly_api}'::pg_catalog.name[] $$;
GRANT EXECUTE ON FUNCTION duly.api_roles() TO PUBLIC;

-- IMMUTABLE, though it is not: see where it was created. A plan is never used under another role.
CREATE OR REPLACE FUNCTION duly.confined() RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT current_user OPERATOR(pg_catalog.=) ANY (duly.api_roles()) $$;

-- Adds a role to the list. Only the owner of the functions can; the lock is that of migrations.
CREATE FUNCTION duly.add_api_role(role name) RETURNS name[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(1685417081);
    IF role OPERATOR(pg_catalog.<>) ALL (duly.api_roles()) THEN
        EXECUTE pg_catalog.format(
            'CREATE OR REPLACE FUNCTION duly.api_roles() RETURNS name[] LANGUAGE sql STABLE PARALLEL SAFE AS %L',
            pg_catalog.format('SELECT %L::pg_catalog.name[]', pg_catalog.array_append(duly.api_roles(), role))
        );
    END IF;
    RETURN duly.api_roles();
END
$$;
REVOKE EXECUTE ON FUNCTION duly.add_api_role(name) FROM PUBLIC;
