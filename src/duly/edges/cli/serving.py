"""What a process here can run: the app's handlers, and what it sends elsewhere."""

from duly.core.model import HANDLER
from duly.core.targets import HTTP, WEBHOOK
from duly.edges.cli.output import counted
from duly.wiring import Duly

INSTALL = "pip install 'duly[webhooks]'"
"""What it takes to send webhooks and HTTP requests."""

SENT = {WEBHOOK: "webhooks", HTTP: "HTTP requests"}


def handlers_of(duly: Duly) -> list[str]:
    """The event types that have handlers here."""
    prefix = f"{HANDLER}:"
    return [lane.removeprefix(prefix) for lane in duly.routes() if lane.startswith(prefix)]


def served(duly: Duly) -> str:
    """In words, such as ``4 handlers, webhooks and HTTP requests``."""
    handlers = handlers_of(duly)
    channels = [lane for lane in duly.routes() if not lane.startswith(f"{HANDLER}:")]
    words = [counted(len(handlers), "handler")] if handlers else []
    words += [SENT.get(channel, channel) for channel in sorted(channels, key=lambda lane: (lane != WEBHOOK, lane))]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
