"""The check of ``duly doctor`` for what NATS has on its disk when it acknowledges a message."""

import asyncio
import urllib.error
import urllib.request
from datetime import timedelta
from urllib.parse import urlsplit

import msgspec

from duly.cli.doctor.check_result import OK, WARN, CheckResult
from duly.cli.output import brief

MONITORING_PORT = 8222
"""Where NATS answers by its own recommendation."""

ANSWERS_WITHIN_S = 2.0
"""Seconds."""

LARGEST_ANSWER = 1_000_000
"""Bytes that are read of it."""

SUBJECT = "NATS on disk"


class _Config(msgspec.Struct):
    sync_interval: int = 0  # nanoseconds
    sync_always: bool = False


class _JetStream(msgspec.Struct):
    config: _Config = msgspec.field(default_factory=_Config)
    disabled: bool = False


async def durability(url: str, monitor: str | None) -> CheckResult:
    """Whether JetStream writes a message to the disk before it acknowledges it. Only its monitoring port tells that."""
    place = monitor or f"http://{urlsplit(url.split(',')[0]).hostname}:{MONITORING_PORT}"
    try:
        found = msgspec.json.decode(await asyncio.to_thread(_ask, f"{place.rstrip('/')}/jsz?config=1"), type=_JetStream)
    except (OSError, ValueError, msgspec.MsgspecError, urllib.error.URLError) as error:
        told = f"{place} does not say how often it syncs: {error}"
        advice = "give `http_port: 8222` to its configuration, or its address to --nats-monitor"
        return CheckResult(WARN if monitor else OK, SUBJECT, told, advice)
    if found.disabled:
        return CheckResult(OK, SUBJECT, f"{place}: JetStream is disabled")
    if found.config.sync_always:
        return CheckResult(OK, SUBJECT, "sync_interval always: what it has acknowledged survives a power cut")
    interval = brief(timedelta(microseconds=found.config.sync_interval / 1000))
    told = f"sync_interval {interval}: a power cut loses what it acknowledged in that time"
    return CheckResult(WARN, SUBJECT, told, "set `sync_interval: always` in the jetstream block of its configuration")


def _ask(place: str) -> bytes:
    if urlsplit(place).scheme not in ("http", "https"):
        raise ValueError("expected an address such as http://127.0.0.1:8222")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(place, timeout=ANSWERS_WITHIN_S) as answer:
        told: bytes = answer.read(LARGEST_ANSWER)
    return told
