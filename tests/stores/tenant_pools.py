"""The connections of requests, as a PostgresStore keeps them: no port shows them, and what they must not keep is known
only by looking."""

from collections.abc import Sequence

import asyncpg

from duly.engine.fairness.keyed_semaphore import KeyedSemaphore
from duly.stores.postgres.store import PostgresStore
from duly.stores.postgres.tenants.tenant_connections import TenantConnection, TenantConnections


def pools_of(store: PostgresStore) -> Sequence[TenantConnections]:
    """The usual pool, and that of searches."""
    return [pool for pool in store._tenant_pools if pool is not None]


def pool_of(store: PostgresStore) -> TenantConnections:
    return pools_of(store)[0]


def worker_pools_of(store: PostgresStore) -> "Sequence[asyncpg.Pool[asyncpg.Record]]":
    """The store's own pool, and that of its searches: no request uses them."""
    return [pool for pool in (store._own, store._searching) if pool is not None]


def idle_connections(pool: TenantConnections) -> Sequence[TenantConnection]:
    return list(pool._idle)


def limit_of(store: PostgresStore) -> KeyedSemaphore:
    """How many connections one tenant may have."""
    return store._shares.usual


def remembers_no_tenant(store: PostgresStore) -> bool:
    """Whether the limit keeps nothing for tenants that use no connection."""
    return not limit_of(store)._taken
