"""Options for the target of an event: ``--webhook URL``, ``--to nats:orders.due``, ``--command LINE`` or ``--target
NAME``."""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.decide.targets.brokers import WORDS
from duly.decide.targets.commands import command
from duly.decide.targets.targets import HTTP, WEBHOOK, http, webhook
from duly.duly import Duly
from duly.errors import Misuse, NotFound


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Options for the target of an event, if it is not a Python handler."""

    webhook: Annotated[str | None, Parameter(help="Send it as a signed webhook to this URL", metavar="URL")] = None
    to: Annotated[
        str | None,
        Parameter(
            help=f"Send it to a broker or task queue: {', '.join(WORDS)}, as in nats:orders.due", metavar="WHERE"
        ),
    ] = None
    command: Annotated[
        str | None,
        Parameter(help="Run this line of shell where a worker runs with --commands", metavar="LINE"),
    ] = None
    format: Annotated[
        str | None, Parameter(help="With --webhook or --to: standard (default) or cloudevents", metavar="WHICH")
    ] = None
    target: Annotated[
        str | None, Parameter(help="Send it to this stored target; `duly targets list` shows them", metavar="NAME")
    ] = None

    async def spec(self, duly: Duly, tenant: str) -> dict[str, Any] | None:
        """The target of an event as JSON; None for a Python handler."""
        places = {"--webhook": self.webhook, "--to": self.to, "--command": self.command, "--target": self.target}
        given = [option for option, place in places.items() if place is not None]
        if len(given) > 1:
            raise Misuse(f"{' and '.join(given)} are {NUMBERS[len(given)]} destinations: give one")
        if self.format is not None and given not in (["--webhook"], ["--to"]):
            raise Misuse("--format can only be used with --webhook or --to; a stored target has its own format")
        if self.webhook is not None:
            return webhook(self.webhook, format=self.format)
        if self.command is not None:
            return command(self.command)
        if self.to is not None:
            return _broker(self.to, self.format)
        return None if self.target is None else await _stored(duly, self.target, tenant)


HERE = TargetOptions()

NUMBERS = {2: "two", 3: "three", 4: "four"}


def _broker(written: str, format: str | None) -> dict[str, Any]:
    channel, colon, place = written.partition(":")
    if channel not in WORDS or not colon:
        known = ", ".join(WORDS)
        raise Misuse(f"--to {written!r:.50} is not a destination: expected one such as nats:orders.due; known: {known}")
    return {channel: place if format is None else {WORDS[channel].where: place, "format": format}}


async def _stored(duly: Duly, name: str, tenant: str) -> dict[str, Any]:
    """The JSON of a stored target, with its own channel. A missing target is refused when the event is stored."""
    try:
        channel = (await duly.targets.get(name, tenant=tenant)).channel
    except NotFound:
        channel = WEBHOOK
    return http(target=name) if channel == HTTP else webhook(target=name)
