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
from duly.errors import Conflict, Misuse
from duly.ports import Added
from duly.records.event import EVENT_JSON, TIMER_SPANS, Event
from duly.records.results import PutChange


def register(commands: App) -> None:
    commands.command(at)


@with_spans(TIMER_SPANS)
class AtOptions:
    """Options for the event to schedule."""

    type: Annotated[str, Parameter(help="Event type; it selects the handler")]
    payload: Annotated[str, Parameter(help="Payload, as JSON", metavar="JSON", allow_leading_hyphen=True)] = "null"
    key: Annotated[str | None, Parameter(help="Unique key: a second call with the same key moves the event")] = None
    once: Annotated[
        bool | None,
        Parameter(help="A key that has fired stays fired (default); or it may fire again", negative="--no-once"),
    ] = None
    tenant: Annotated[str, Parameter(help="Tenant of the event")] = "default"
    correlation_id: Annotated[str | None, Parameter(help="Correlation id, for tracing")] = None


def at(
    *when: Annotated[
        str, Parameter(help="2026-12-01T09:00:00Z, +30s, in 5m, or now; not with --quiet", allow_leading_hyphen=False)
    ],
    what: AtOptions,
    aimed: TargetOptions = HERE,
    invocation: Hidden,
) -> None:
    """Schedule one event.

    It is stored durably when the command returns. Without --webhook, --to, --command or --target, a Python handler runs
    it.
    """
    spans = given_spans(TIMER_SPANS, what)
    if not when and "quiet" not in spans:
        raise Misuse(f"give the due time: {EXAMPLES}; or --quiet")
    asyncio.run(_at(" ".join(when) if when else None, what, spans, aimed, invocation))


async def _at(
    written: str | None, what: AtOptions, spans: dict[str, Any], aimed: TargetOptions, invocation: Invocation
) -> None:
    due, payload = None if written is None else parse_when(written), read_payload(what.payload)
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
            once=what.once,
            **spans,
        )
        now, warnings = await duly.now(), await duly.workers.warnings([added.event.lane])
    handlers = handlers_of(duly)
    if handlers and added.event.target_json is None and what.type not in handlers:
        note(f"note: the app has no handler for {what.type!r}; the event waits for a worker that has such a handler")
    else:
        for warning in warnings:
            note(f"warning: {warning}")
    if invocation.json:
        print_json(EVENT_JSON.write(added.event) | {"change": added.change})
    else:
        _show(added, away(added.event.due - now))
    if added.change is PutChange.ALREADY_FIRED:
        raise Conflict("nothing was scheduled: this key has fired already; --no-once lets it fire again")


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
    if added.change is not PutChange.CREATED:
        line.append(f"  ({_CHANGES[added.change]})")
    screen().print(line, soft_wrap=True)


_CHANGES = {
    PutChange.MOVED: "an event with this key existed and was moved",
    PutChange.UNCHANGED: "this event exists already under this key: nothing changed",
    PutChange.ALREADY_FIRED: "the event of this key has fired already",
}
