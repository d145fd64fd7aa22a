"""The capabilities of this process: the app's handlers, and the channels on which it can send."""

from duly.channels.brokers.registry import BROKERS
from duly.cli.output import counted
from duly.decide.targets.broker_allow import SETTING
from duly.decide.targets.command_allow import SETTING as COMMANDS_SETTING
from duly.decide.targets.commands import COMMAND
from duly.decide.targets.targets import HTTP, WEBHOOK
from duly.duly import Duly
from duly.extras import install
from duly.records.event import HANDLER

INSTALL = install("webhooks")
"""The command that installs the libraries for webhooks and HTTP requests."""

REQUESTS = {WEBHOOK: "webhooks", HTTP: "HTTP requests"}
SENT = {**REQUESTS, COMMAND: "commands", **{name: engine.title for name, engine in BROKERS.items()}}
"""The display name of each channel."""


def handlers_of(duly: Duly) -> list[str]:
    """The event types that have handlers in this process."""
    prefix = f"{HANDLER}:"
    return [lane.removeprefix(prefix) for lane in duly.routes() if lane.startswith(prefix)]


def open_brokers(duly: Duly) -> str | None:
    """The destinations on brokers that tenants may name over HTTP, in words; None if there is nothing to report."""
    allow = duly.settings.broker_allow
    if allow:
        return f"opened to tenants by {SETTING}: {allow}"
    known = any(getattr(duly.settings, f"{name}_url") for name in BROKERS)
    return f"requests may not name brokers; {SETTING} opens broker addresses to tenants" if known else None


def open_programs(duly: Duly) -> str | None:
    """The folders whose programs requests over HTTP may name, in words; None if no commands are run here."""
    folders = duly.settings.commands
    if folders is None:
        return None
    if folders:
        return f"commands in {', '.join(folders)} are open to admin keys of all tenants"
    return f"requests may name no commands; {COMMANDS_SETTING}=/folder opens its programs to admin keys of all tenants"


def served(duly: Duly) -> str:
    """The capabilities in words, such as ``4 handlers, webhooks, HTTP requests and NATS``."""
    handlers = handlers_of(duly)
    channels = [lane for lane in duly.routes() if not lane.startswith(f"{HANDLER}:")]
    order = list(SENT)
    words = [counted(len(handlers), "handler")] if handlers else []
    words += [SENT[channel] for channel in order if channel in channels]
    words += sorted(channel for channel in channels if channel not in SENT)
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
