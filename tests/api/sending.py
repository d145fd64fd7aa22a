"""What the tests of webhooks share: an app that may reach loopback, and words for what was sent."""

import json
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from duly import Duly, Event, Timer
from duly.testing import ManualClock
from tests.receivers.asked import Request

KEY = "a key of at least thirty-two characters"
OLD_KEY = "the key that was there before it and is long"
OPTIONS = {"webhook_allow": "127.0.0.0/8", "secret_key": KEY}


def verified(request: Request, secret: str, **changed: str) -> bool:
    """What the reference library thinks of it, as it came or with other headers."""
    headers = {name.lower(): value for name, value in request.headers} | changed
    try:
        Webhook(secret).verify(request.body or b"", headers)
    except WebhookVerificationError:
        return False
    return True


def body(request: Request) -> Any:
    return json.loads(request.body or b"")


async def one_due(app: Duly, clock: ManualClock, target: Any, payload: Any = None, **options: Any) -> Event:
    """An event that is due now."""
    return await app.at(clock.now(), "cart.abandoned", payload, target=target, **options)


async def many_due(app: Duly, clock: ManualClock, target: Any, count: int, **options: Any) -> list[str]:
    """So many that are due now; their ids."""
    return await app.add_many([Timer(clock.now(), "cart.abandoned", n, target=target, **options) for n in range(count)])


async def acts(app: Duly, id: str) -> list[str]:
    return [entry.act for entry in await app.events.history(id)]
