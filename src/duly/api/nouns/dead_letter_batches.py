"""Many dead letters at once, some thousand in each request: a request is one transaction, and others wait for that."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from duly.api.protocol.request import ApiRequest
from duly.decide.checks import is_id
from duly.decide.error_text import storable
from duly.decide.lifecycle import LONGEST_WAIT
from duly.decide.targets.rates import read_rate
from duly.errors import Invalid, Problem
from duly.records.cursors import read_cursor, write_cursor
from duly.records.specs import OfTenant, Spec
from duly.verbs.dead_letters import Extent, Place, discard_all, replay_all
from duly.verbs.events import check_limit

MOST_AT_ONCE = 10_000
MOST_WANTED = 2**53

_places = msgspec.json.Decoder(Place)


async def replay_some(ask: ApiRequest, spec: Spec, said: Mapping[str, Any]) -> dict[str, Any]:
    gap = None if said["rate"] is None else read_rate(said["rate"])
    own, extent = spec & OfTenant(ask.tenant), _extent(said)
    done, rest = await replay_all(ask.own.store, own, gap, extent, storable(ask.by), _nobody, ask.own.channels)
    return {**msgspec.to_builtins(done), "next_cursor": _written(said, rest)}


async def discard_some(ask: ApiRequest, spec: Spec, said: Mapping[str, Any]) -> dict[str, Any]:
    why = None if said["reason"] is None else storable(said["reason"])
    own, extent = spec & OfTenant(ask.tenant), _extent(said)
    done, rest = await discard_all(ask.own.store, own, extent, storable(ask.by), why, _nobody)
    return {**msgspec.to_builtins(done), "next_cursor": _written(said, rest)}


def _extent(said: Mapping[str, Any]) -> Extent:
    limit = said["limit"]
    check_limit(limit)
    begun = None if said["cursor"] is None else _read(said)
    return Extent(None if limit is None else min(limit, MOST_WANTED), MOST_AT_ONCE, begun)


def same(said: Mapping[str, Any]) -> dict[str, str]:
    """What must be said again for a cursor to fit."""
    return {
        field: msgspec.json.encode(value, order="sorted").decode() for field, value in said.items() if field != "cursor"
    }


def _written(said: Mapping[str, Any], rest: Place | None) -> str | None:
    return None if rest is None else write_cursor(same(said), msgspec.json.encode(rest).decode())


def _read(said: Mapping[str, Any]) -> Place:
    try:
        place = _places.decode(read_cursor(same(said), said["cursor"]))
        if not _can_be(place):
            raise ValueError("is none that such a request has given: take next_cursor as it is")
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


def _nobody(_: object) -> None:
    """Nobody wants to know."""
