"""Keys of the API as JSON: what is known of them, and not the keys themselves."""

from datetime import datetime
from typing import Any

from duly.decide.targets.rates import show_rate
from duly.instants import write_instant
from duly.records.api_key import ApiKey


def key_to_json(key: ApiKey, now: datetime) -> dict[str, Any]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "scope": key.scope.value,
        "all_tenants": key.all_tenants,
        "hint": key.hint,
        "state": key.state(now),
        "rate": None if key.rate is None else show_rate(key.rate),
        "created_at": write_instant(key.created),
        "created_by": key.created_by,
        "expires_at": write_instant(key.expires),
        "revoked_at": write_instant(key.revoked),
        "last_used_at": write_instant(key.last_used),
    }
