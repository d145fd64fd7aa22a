"""Requests without row-level security (DULY_API_ROLE=off): they run as the login itself, for one tenant alone."""

from typing import Any

from duly.errors import ApiNotReady, Forbidden

ONE_TENANT = "default"
"""The only tenant that requests may have."""

MOST_NAMED = 5
"""Other tenants that the error names."""

OTHER_TENANTS = """
SELECT tenant FROM duly.api_keys
WHERE tenant <> 'default' AND revoked IS NULL AND (expires IS NULL OR expires > statement_timestamp())
UNION SELECT tenant FROM duly.schedules WHERE tenant <> 'default'
UNION SELECT tenant FROM duly.users WHERE tenant <> 'default'
UNION SELECT tenant FROM duly.targets WHERE tenant <> 'default'
UNION SELECT tenant FROM duly.templates WHERE tenant <> 'default'
UNION (SELECT tenant FROM duly.events WHERE tenant <> 'default' LIMIT $1)
ORDER BY tenant LIMIT $1
"""
"""Tenants with keys that are valid, or with rows. Events of other tenants are found by an index of their own."""


async def require_one_tenant(connection: Any) -> None:
    """Checks that the database has no other tenant."""
    others = [row[0] for row in await connection.fetch(OTHER_TENANTS, MOST_NAMED + 1)]
    if others:
        told = ", ".join(repr(tenant) for tenant in others[:MOST_NAMED]) + (", …" if len(others) > MOST_NAMED else "")
        raise ApiNotReady(
            f"DULY_API_ROLE=off is for one tenant, {ONE_TENANT}, because row-level security is then off; and this "
            f"database has API keys or rows of other tenants: {told}",
            "Remove DULY_API_ROLE=off, or revoke those keys and move those tenants to a database of their own",
        )


def require_the_one(tenant: str) -> None:
    if tenant != ONE_TENANT:
        raise Forbidden(
            f"this server serves only the tenant {ONE_TENANT}, because it runs without row-level security "
            "(DULY_API_ROLE=off): use a key of that tenant, and do not send another one in Duly-Tenant"
        )
