"""Targets and destinations as JSON: what may be seen of them. Secrets and the values of headers are not among it."""

from typing import Any

from duly.decide.targets.rates import show_rate
from duly.decide.targets.targets import WEBHOOK
from duly.instants import write_instant
from duly.records.target import DESTINATION_OF_ALL, Known, Target

USUAL = {"webhook": {"format": "standard"}, "http": {"method": "POST"}}
"""What holds where a target does not say it."""


def target_to_json(target: Target) -> dict[str, Any]:
    spec = USUAL[target.channel] | target.spec
    told = {"format": spec.get("format")} if target.channel == WEBHOOK else {"method": spec.get("method")}
    return {
        "id": target.id,
        "name": target.name,
        "tenant": target.tenant,
        "channel": target.channel,
        "url": target.url,
        **told,
        "timeout": spec.get("timeout"),
        "headers": spec.get("headers", []),
        "enabled": target.enabled,
        **_known(target.known),
        "created_at": write_instant(target.created),
        "updated_at": write_instant(target.updated),
    }


def destination_to_json(known: Known) -> dict[str, Any]:
    """One without a name stands for all of its tenant's."""
    destination = None if known.destination == DESTINATION_OF_ALL else known.destination
    return {"destination": destination, "tenant": known.tenant, **_known(known)}


def _known(known: Known | None) -> dict[str, Any]:
    known = known or Known("", "")
    return {
        "concurrency": known.concurrency,
        "rate": None if known.rate is None else show_rate(known.rate),
        "parked": known.parked,
        "parked_since": None if known.parked is None else write_instant(known.since),
        "probe_at": write_instant(known.probe_at),
    }
