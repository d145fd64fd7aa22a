"""Finds a user by id, or by the key that the caller's own system uses."""

import uuid
from functools import partial

from duly.cli.names import DEFAULT_TENANT, find, is_id
from duly.duly import Duly
from duly.errors import NotFound
from duly.records.user import User


async def find_user(duly: Duly, name: str, tenant: str | None) -> User:
    """The user with this id, or with this key in the tenant."""
    by_key = partial(duly.users.by_key, tenant=tenant or DEFAULT_TENANT)
    return await find(name, partial(duly.users.get, tenant=tenant), by_key)


async def user_id(duly: Duly, name: str, tenant: str | None) -> str:
    """The id of a user, also of a deleted one, whose events still exist."""
    try:
        return (await find_user(duly, name, tenant)).id
    except NotFound:
        if is_id(name):
            return str(uuid.UUID(name))
        raise
