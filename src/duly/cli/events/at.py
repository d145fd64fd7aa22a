"""``duly at``: one event, at an instant or after a delay."""

import asyncio
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.text import Text

from duly.cli.instants import EXAMPLES, parse_when
from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import STYLES, away, note, print_json, readable, screen, utc
from duly.cli.payloads import read_payload
from duly.cli.processes.capabilities import handlers_of
from duly.cli.spans import given_spans, with_spans
from duly.cli.targets.options import HERE, TargetOptions
from duly.errors import Misuse
from duly.ports import Added
from duly.records.event import EVENT_JSON, TIMER_SPANS, Event


def register(commands: App) -> None:
    commands.command(at)


@with_spans(TIMER_SPANS)
class AtOptions:
    """Options for the event to schedule."""

    type: Annotated[str, Parameter(help="Event type; it selects the handler")]
    payload: Annotated[str, Parameter(help="Payload, as JSON", metavar="JSON", allow_leading_hyphen=True)] = "null"
    key: Annotated[str | None, Parameter(help="Unique key: a second call with the same key moves the event")] = None
    tenant: Annotated[str, Parameter(help="Tenant of the event")] = "default"
    correlation_id: Annotated[str | None, Parameter(help="Correlation id, for tracing")] = None


def at(
    *when: Annotated[str, Parameter(help="2026-12-01T09:00:00Z, +30s, in 5m, or now", allow_leading_hyphen=False)],
    what: AtOptions,
    aimed: TargetOptions = HERE,
    invocation: Hidden,
) -> None:
    """Schedule one event.

    It is stored durably when the command returns. Without --webhook, --to or --target, a Python handler runs it.
    """
    if not when:
        raise Misuse(f"give the due time: {EXAMPLES}")
    asyncio.run(_at(" ".join(when), what, aimed, invocation))


async def _at(written: str, what: AtOptions, aimed: TargetOptions, invocation: Invocation) -> None:
    due, payload = parse_when(written), read_payload(what.payload)
    spans: Any = given_spans(TIMER_SPANS, what)
    duly = invocation.duly()
    async with duly:
        added = await duly.put(
            due,
            what.type,
            payload,
            key=what.key,
            tenant=what.tenant,
            target=await aimed.spec(duly, what.tenant),
            correlation_id=what.correlation_id,
            **spans,
        )
        now = await duly.now()
    handlers = handlers_of(duly)
    if handlers and added.event.target_json is None and what.type not in handlers:
        note(f"note: the app has no handler for {what.type!r}; the event waits for a worker that has such a handler")
    if invocation.json:
        print_json(EVENT_JSON.write(added.event) | {"change": added.change})
    else:
        _show(added, away(added.event.due - now))


def _show(added: Added, how_far: str) -> None:
    event: Event = added.event
    line = Text.assemble(
        (event.id, "bold"),
        "  ",
        readable(event.type),
        "  due ",
        (f"{utc(event.due)} UTC", STYLES[event.status]),
        f", {how_far}",
        f"  to {readable(event.destination)}" if event.destination else "",
    )
    if added.change != "created":
        line.append(f"  ({_CHANGES[added.change]})")
    screen().print(line, soft_wrap=True)


_CHANGES = {
    "moved": "an event with this key existed and was moved",
    "unchanged": "this event exists already under this key: nothing changed",
}
