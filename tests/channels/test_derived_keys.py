"""Signing keys of origins that are no stored targets: remembered, but not without end."""

from typing import Any, cast

from duly.channels.http.webhook import MOST_DERIVED, Webhook
from duly.decide.targets.secrets import SecretKeys


def test_the_keys_of_the_origins_that_were_sent_to_last_are_remembered() -> None:
    keys = SecretKeys("a key of at least thirty-two characters")
    webhook = Webhook(cast(Any, None), cast(Any, None), keys)
    for number in range(3 * MOST_DERIVED):
        url = f"https://{number}.example/hook"
        assert webhook._usual("acme", url) == keys.signing("acme", f"https://{number}.example")
        webhook._usual("acme", "https://often.example/")
    assert len(webhook._derived) == MOST_DERIVED
    assert ("acme", "https://often.example") in webhook._derived
