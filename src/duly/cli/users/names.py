"""Whom people mean: a user by its id, or by the key that their own system has for it."""

import uuid

from duly.duly import Duly
from duly.errors import NotFound
from duly.records.user import User

DEFAULT_TENANT = "default"


async def find_user(duly: Duly, name: str, tenant: str | None) -> User:
    """What is no UUID is a key. What is one may be a key all the same, as other systems have ids as well."""
    if not is_id(name):
        return await duly.users.by_key(name, tenant=tenant or DEFAULT_TENANT)
    try:
        return await duly.users.get(name, tenant=tenant)
    except NotFound as missing:
        try:
            return await duly.users.by_key(name, tenant=tenant or DEFAULT_TENANT)
        except NotFound:
            raise missing from None


async def user_id(duly: Duly, name: str, tenant: str | None) -> str:
    """The id, also of a user who was deleted: the events are still there."""
    try:
        return (await find_user(duly, name, tenant)).id
    except NotFound:
        if is_id(name):
            return str(uuid.UUID(name))
        raise


def is_id(name: str) -> bool:
    try:
        uuid.UUID(name)
    except ValueError:
        return False
    return True
