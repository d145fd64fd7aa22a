"""Acts on everything that a filter matches: what they did, or what they would do."""

from typing import Annotated, NamedTuple

import msgspec

from duly.records.finding.counts import Count
from duly.records.marks import FromOne, FromZero, told


class ActKind(msgspec.Struct, frozen=True):
    """Schedules or events of one tenant and type in the same state, and their number."""

    tenant: str
    type: str
    state: Annotated[str, told("The status of events; enabled or paused for schedules")]
    many: FromOne


class ActedOn(msgspec.Struct, frozen=True, kw_only=True):
    """How many an act by a filter has changed; of a dry run, how many it would change, and of which kinds."""

    done: FromZero = 0
    left_alone: Annotated[
        FromZero, told("Somebody else is changing them, or has changed them, or the act is not allowed for them")
    ] = 0
    dry_run: bool = False
    would: Annotated[Count | None, told("Of a dry run: how many match")] = None
    kinds: Annotated[tuple[ActKind, ...], told("Of a dry run: the most frequent kinds among the first 10,000")] = ()

    def plus(self, done: int, left_alone: int) -> "ActedOn":
        return msgspec.structs.replace(self, done=self.done + done, left_alone=self.left_alone + left_alone)


class Portion(NamedTuple):
    """A part of an act: at most *most* things, after the place where the part before it has stopped."""

    most: int | None = None
    after: str | None = None
