"""Replays and discards of many dead letters, one bounded step after the other. What is left to do is stored with what
was done, in the transaction of each step: a page that is reloaded or opened twice goes on, and no step runs twice."""

import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from duly.api.access.tenancy import Tenancy
from duly.errors import NotFound
from duly.records.filters import EventFilter, read_filter
from duly.verbs.events.dead_letters import Extent, Place

LETTERS_PER_STEP = 2000
"""Dead letters of a step: a step is one transaction, for which others wait."""

FINGERPRINT = "a batch of dead letters"
"""What tells the stored state of a batch from the answers to other requests."""

TOKEN_BYTES = 18
"""Random bytes of a batch's name."""

_NAME = re.compile(r"[A-Za-z0-9_-]{20,50}")


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A replay or discard of many dead letters, and how far it has come."""

    verb: str  # replay or discard
    filter: Mapping[str, Any]
    by: str
    total: int  # dead letters that matched when it began, or the limit
    rate: str | None = None
    limit: int | None = None
    reason: str | None = None
    step: int = 0
    done: int = 0
    left_alone: int = 0
    until: datetime | None = None  # with a rate: when the last one becomes ready
    place: Place | None = None  # where the next step begins
    ended: bool = False
    stopped: bool = False  # somebody has asked it to wait

    @property
    def which(self) -> EventFilter:
        return read_filter(self.filter)[0]


def name_of(form: Mapping[str, str]) -> str:
    """The name that a form gives to its batch, so that a form that is sent twice begins one; a new one without it."""
    given = form.get("batch", "")
    return given if _NAME.fullmatch(given) else secrets.token_urlsafe(TOKEN_BYTES)


def _key(name: str) -> str:
    return f"dashboard-batch-{name}"


async def stored_batch(own: Tenancy, name: str) -> Batch:
    """A batch of this tenant; raises NotFound if there is none, or if it began more than a day ago."""
    found = await own.requests.stored(own.tenant, _key(name))
    if found is None or found.fingerprint != FINGERPRINT:
        raise NotFound(
            "there is no such replay or discard: it began more than a day ago, or never. What it has done stays done; "
            "begin another one for the rest"
        )
    return msgspec.json.decode(found.body, type=Batch)


async def begin_batch(own: Tenancy, name: str, batch: Batch) -> Batch:
    """Stores a batch and takes its first step. A form that is sent twice begins one batch."""
    known = await own.requests.recall(own.tenant, _key(name), FINGERPRINT)
    if known is not None:
        return msgspec.json.decode(known.body, type=Batch)
    return await _store(own, name, await _stepped(own, batch))


async def take_step(own: Tenancy, name: str, step: int, *, stop: bool) -> Batch:
    """Takes the step with this number, unless it was taken before; with *stop*, the batch waits instead."""
    await stored_batch(own, name)  # raises if there is none
    known = await own.requests.recall(own.tenant, _key(name), FINGERPRINT)  # locked until this transaction ends
    if known is None:
        raise NotFound("this replay or discard has just been forgotten: begin another one for the rest")
    batch = msgspec.json.decode(known.body, type=Batch)
    if stop and not batch.ended:
        return await _store(own, name, msgspec.structs.replace(batch, stopped=True))
    if batch.ended or batch.step != step:
        return batch
    return await _store(own, name, await _stepped(own, batch))


async def _stepped(own: Tenancy, batch: Batch) -> Batch:
    extent, until = Extent(batch.limit, LETTERS_PER_STEP, batch.place), batch.until
    if batch.verb == "replay":
        replayed, rest = await own.events.replay_batch(
            batch.which, extent, tenant=own.tenant, rate=batch.rate, by=batch.by
        )
        done, left = replayed.events, replayed.left_alone
        until = max(filter(None, (until, replayed.until)), default=None)
    else:
        discarded, rest = await own.events.discard_batch(
            batch.which, extent, tenant=own.tenant, by=batch.by, reason=batch.reason
        )
        done, left = discarded.events, discarded.left_alone
    return msgspec.structs.replace(
        batch,
        step=batch.step + 1,
        done=batch.done + done,
        left_alone=batch.left_alone + left,
        until=until,
        place=rest,
        ended=rest is None,
        stopped=False,
    )


async def _store(own: Tenancy, name: str, batch: Batch) -> Batch:
    await own.requests.remember(own.tenant, _key(name), 200, "{}", msgspec.json.encode(batch))
    return batch
