"""What a process here can run: the app's handlers, and what it sends elsewhere."""

from duly.channels.engines import ENGINES
from duly.core.model import HANDLER
from duly.core.targets import HTTP, WEBHOOK
from duly.edges.cli.output import counted
from duly.wiring import Duly

INSTALL = "pip install 'duly[webhooks]'"
"""What it takes to send webhooks and HTTP requests."""

REQUESTS = {WEBHOOK: "webhooks", HTTP: "HTTP requests"}
SENT = {**REQUESTS, **{name: engine.title for name, engine in ENGINES.items()}}
"""What each channel is called."""


def handlers_of(duly: Duly) -> list[str]:
    """The event types that have handlers here."""
    prefix = f"{HANDLER}:"
    return [lane.removeprefix(prefix) for lane in duly.routes() if lane.startswith(prefix)]


def served(duly: Duly) -> str:
    """In words, such as ``4 handlers, webhooks, HTTP requests and NATS``."""
    handlers = handlers_of(duly)
    channels = [lane for lane in duly.routes() if not lane.startswith(f"{HANDLER}:")]
    order = list(SENT)
    words = [counted(len(handlers), "handler")] if handlers else []
    words += [SENT[channel] for channel in order if channel in channels]
    words += sorted(channel for channel in channels if channel not in SENT)
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
