"""Replays and discards dead letters in batches: a request is one transaction, on which others wait, so each takes only
some thousand."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from duly.api.protocol.request import ApiRequest
from duly.decide.checks import is_id
from duly.decide.lifecycle import LONGEST_WAIT
from duly.errors import Invalid, Problem
from duly.records.event import Status
from duly.records.filters import EventFilter
from duly.records.finding.acts import ActKind
from duly.records.finding.counts import Count
from duly.records.finding.cursors import read_cursor, write_cursor
from duly.verbs.events.dead_letters import Extent, Place
from duly.verbs.events.events import check_limit

MOST_AT_ONCE = 10_000
"""Dead letters that one request replays or discards."""

MOST_WANTED = 2**53
"""Dead letters that a caller may ask for: the largest whole number that every JSON parser reads exactly."""

_places = msgspec.json.Decoder(Place)


async def replay_some(ask: ApiRequest, which: EventFilter, said: Mapping[str, Any]) -> dict[str, Any]:
    done, rest = await ask.own.events.replay_batch(
        which, _extent(said), tenant=ask.tenant, rate=said["rate"], by=ask.by
    )
    return {**msgspec.to_builtins(done), "next_cursor": _written(said, rest), **NO_DRY_RUN}


async def discard_some(ask: ApiRequest, which: EventFilter, said: Mapping[str, Any]) -> dict[str, Any]:
    done, rest = await ask.own.events.discard_batch(
        which, _extent(said), tenant=ask.tenant, reason=said["reason"], by=ask.by
    )
    return {**msgspec.to_builtins(done), "next_cursor": _written(said, rest), **NO_DRY_RUN}


NO_DRY_RUN: Mapping[str, Any] = {"dry_run": False, "would": None, "kinds": ()}


async def would_act(ask: ApiRequest, which: EventFilter, said: Mapping[str, Any], none: Any) -> dict[str, Any]:
    """The answer of a dry run: how many dead letters match, and their kinds. *none*: the result of doing nothing."""
    found = await ask.own.events.dead_letters(which, tenant=ask.tenant)
    many = found.events if said["limit"] is None else min(found.events, said["limit"])
    kinds = Counter[tuple[str, str]]()
    for kind in found.kinds:
        kinds[kind.tenant, kind.type] += kind.events
    return {
        **msgspec.to_builtins(none),
        "next_cursor": None,
        "dry_run": True,
        "would": Count(many, exact=True),
        "kinds": [ActKind(tenant, type, Status.FAILED, number) for (tenant, type), number in kinds.most_common()],
    }


def _extent(said: Mapping[str, Any]) -> Extent:
    limit = said["limit"]
    check_limit(limit)
    begun = None if said["cursor"] is None else _read(said)
    return Extent(None if limit is None else min(limit, MOST_WANTED), MOST_AT_ONCE, begun)


def same(said: Mapping[str, Any]) -> dict[str, str]:
    """The fields that must be sent again, unchanged, for a cursor to be valid."""
    return {
        field: msgspec.json.encode(value, order="sorted").decode() for field, value in said.items() if field != "cursor"
    }


def _written(said: Mapping[str, Any], rest: Place | None) -> str | None:
    return None if rest is None else write_cursor(same(said), msgspec.json.encode(rest).decode())


def _read(said: Mapping[str, Any]) -> Place:
    try:
        place = _places.decode(read_cursor(same(said), said["cursor"]))
        if not _can_be(place):
            raise ValueError("is not a cursor of this request: send next_cursor unchanged")
    except ValueError as error:
        raise Invalid([Problem("cursor", str(error))]) from None
    return place


def _can_be(place: Place) -> bool:
    instants: list[datetime] = [place.since, *([] if place.free is None else [place.free])]
    return (
        all(instant.tzinfo is not None for instant in instants)
        and (place.after is None or is_id(place.after))
        and (place.left is None or 0 < place.left <= MOST_WANTED)
        and (place.free is None or abs(place.free - place.since) <= 2 * LONGEST_WAIT)
    )
