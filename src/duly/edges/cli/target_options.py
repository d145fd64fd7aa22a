"""Where events go, as it is said on the command line: ``--webhook URL`` or ``--target NAME``."""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.core.targets import HTTP, WEBHOOK, http, webhook
from duly.edges.cli.output import note
from duly.errors import Misuse, NotFound
from duly.wiring import Duly


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Whither:
    """Where it goes, if not to a Python handler."""

    webhook: Annotated[str | None, Parameter(help="Send it there as a signed webhook", metavar="URL")] = None
    format: Annotated[
        str | None, Parameter(help="With --webhook: standard (unless told) or cloudevents", metavar="WHICH")
    ] = None
    target: Annotated[
        str | None, Parameter(help="Send it to this target; `duly targets list` shows them", metavar="NAME")
    ] = None

    async def spec(self, duly: Duly, tenant: str) -> dict[str, Any] | None:
        """What the event says of it; None for a handler."""
        if self.webhook is not None and self.target is not None:
            raise Misuse("--webhook and --target are two places: give one")
        if self.format is not None and self.webhook is None:
            raise Misuse("--format goes with --webhook; a target has its own")
        if self.webhook is not None:
            return webhook(self.webhook, format=self.format)
        return None if self.target is None else await _stored(duly, self.target, tenant)


HERE = Whither()


async def _stored(duly: Duly, name: str, tenant: str) -> dict[str, Any]:
    """By the target's own channel. One that is not there yet may come until the event is due."""
    try:
        channel = (await duly.targets.get(name, tenant=tenant)).channel
    except NotFound as missing:
        note(f"note: {missing}; put it before the event is due, or that becomes a dead letter")
        channel = WEBHOOK
    return http(target=name) if channel == HTTP else webhook(target=name)
