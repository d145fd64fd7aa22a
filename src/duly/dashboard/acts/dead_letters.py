"""The acts on many dead letters: replay and discard all that match a filter."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from duly.dashboard.acts.act import Act, Field, Foretold, HttpCall, Values, add_act
from duly.dashboard.acts.options import option
from duly.dashboard.dead_letters.batches import Batch, begin_batch, name_of
from duly.dashboard.events.filter_form import NOT_OF_DEAD_LETTERS, PLACEHOLDERS, AskedFilter, inputs, read_asked
from duly.dashboard.pages import Pages
from duly.dashboard.rendering import many
from duly.dashboard.times import short
from duly.dashboard.visit import Receipt, Visit, part
from duly.decide.targets.rates import read_rate
from duly.errors import Invalid, Problem
from duly.records.filters import FIELDS, FLAG, INSTANT, EventFilter
from duly.records.results import DeadLetters

FILTERS = tuple(name for name in FIELDS if name not in NOT_OF_DEAD_LETTERS)
"""The fields of a filter of dead letters."""

ALWAYS_SHOWN = ("type", "destination", "error")
"""Filters that the form offers. The others come with the address: the list of events has all of them."""

SHOWN_KINDS = 5
"""Kinds of dead letters that the form lists; the others are counted together."""

LARGEST_LIMIT_DIGITS = 9
"""Digits of the number of dead letters that can be asked for."""


def add_acts(pages: Pages) -> None:
    """Adds the pages of the acts on many dead letters."""
    add_act(pages, "/dead-letters/replay", replay)
    add_act(pages, "/dead-letters/discard", discard)


class Wanted(NamedTuple):
    """What was filled in: which dead letters, and how."""

    asked: AskedFilter
    rate: str | None
    limit: int | None
    reason: str | None
    problems: Sequence[Problem]

    @property
    def which(self) -> EventFilter:
        """The filter; raises Invalid with every problem."""
        if self.problems:
            raise Invalid(self.problems)
        return self.asked.which


async def _wanted(visit: Visit) -> Wanted:
    given: Mapping[str, str] = visit.form or visit.query
    asked = await read_asked(visit, given, FILTERS)
    rate, problems = given.get("rate", "").strip() or None, [*asked.problems]
    if rate is not None:
        try:
            read_rate(rate)
        except Invalid as error:
            problems += error.problems
    limit = _limit(given.get("limit", "").strip())
    if isinstance(limit, Problem):
        problems, limit = [*problems, limit], None
    return Wanted(asked, rate, limit, given.get("reason") or None, problems)


def _limit(written: str) -> int | Problem | None:
    if not written:
        return None
    if written.isascii() and written.isdecimal() and len(written) <= LARGEST_LIMIT_DIGITS and int(written):
        return int(written)
    return Problem("limit", f"must be a whole number, at least 1, not {written[:30]!r}")


def _fields(visit: Visit, wanted: Wanted) -> Sequence[Field]:
    return [
        Field(
            one.name,
            one.label,
            kind="checkbox" if one.kind == "checkbox" else "text",
            help=one.help if FIELDS[one.name].kind is INSTANT else "",
            example=PLACEHOLDERS.get(FIELDS[one.name].kind, ""),
        )
        for one in inputs(visit, wanted.asked, FILTERS)
        if one.value or one.name in ALWAYS_SHOWN
    ]


def _values(visit: Visit, wanted: Wanted) -> Values:
    shown = {one.name: one.value for one in inputs(visit, wanted.asked, FILTERS)}
    return shown | {"batch": name_of(visit.form)}


def _options(visit: Visit, wanted: Wanted, verb: str) -> Sequence[str]:
    """The command. It names the tenant even if that is the usual one: without, it would act in all of them."""
    words = ["events", verb, "--all"]
    for name, value in wanted.which.query().items():
        flag = name.removesuffix("_id")
        words += [f"--{flag}"] if FIELDS[name].kind is FLAG else option(flag, value)
    words += [*option("rate", wanted.rate), *option("limit", str(wanted.limit or ""))]
    words += option("reason", wanted.reason)
    return [*words, "--yes", *(["--tenant", "default"] if visit.tenant == "default" else [])]


def _call(wanted: Wanted, verb: str) -> HttpCall:
    more = {"rate": wanted.rate, "limit": wanted.limit, "reason": wanted.reason}
    body = {"filter": wanted.which.body(), **{name: value for name, value in more.items() if value is not None}}
    return HttpCall("POST", f"/v1/events/{verb}", body)


async def _act(visit: Visit, verb: str, participle: str, more: Sequence[Field]) -> Act:
    wanted = await _wanted(visit)
    values = _values(visit, wanted)

    async def run(visit: Visit, values: Values) -> Receipt:
        which, name = wanted.which, name_of(values)
        there = (await visit.own.events.dead_letters(which, tenant=visit.tenant)).events
        total = there if wanted.limit is None else min(there, wanted.limit)
        batch = Batch(
            verb=verb,
            filter=which.body(),
            by=visit.by,
            total=total,
            rate=wanted.rate,
            limit=wanted.limit,
            reason=wanted.reason,
        )
        done = await begin_batch(visit.own, name, batch)
        told = f"The {verb} of {many(total, 'dead letter')} has begun: this page goes on with it."
        if done.ended:
            told = f"{many(done.done, 'dead letter')} {'was' if done.done == 1 else 'were'} {participle}."
        page = visit.url(f"/dead-letters/batches/{part(name)}")
        return Receipt(told, to=page)

    async def foretell(visit: Visit, _: Values) -> Foretold:
        return _foretold(await visit.own.events.dead_letters(wanted.which, tenant=visit.tenant), wanted, participle)

    return Act(
        title=f"{verb.capitalize()} dead letters",
        verb=f"{verb.capitalize()} them",
        what="All that match are "
        + (
            "delivered again, the oldest first, under the same ids."
            if verb == "replay"
            else "discarded for good: they cannot be replayed any more."
        ),
        fields=(*_fields(visit, wanted), *more, Field("batch", "", kind="hidden")),
        values=values,
        foretell=foretell,
        command=lambda _: _options(visit, wanted, verb),
        call=lambda _: _call(wanted, verb),
        run=run,
        back=visit.url("/dead-letters"),
        danger=verb == "discard",
    )


def _foretold(there: DeadLetters, wanted: Wanted, participle: str) -> Foretold:
    """How many there are, of which kinds, and how long a replay at this rate takes."""
    events = there.events if wanted.limit is None else min(there.events, wanted.limit)
    if not events:
        return Foretold(["No dead letter matches."])
    oldest = "" if events == there.events else f", the oldest of {there.events:,},"
    lines = [f"{many(events, 'dead letter')}{oldest} {'is' if events == 1 else 'are'} {participle}:"]
    for kind in there.kinds[:SHOWN_KINDS]:
        lines.append(f"{kind.events:,} × {kind.type}{'' if kind.destination is None else f' to {kind.destination}'}")
    if others := there.events - sum(kind.events for kind in there.kinds[:SHOWN_KINDS]):
        lines.append(f"{others:,} of other kinds")
    if wanted.rate is not None:
        gap = read_rate(wanted.rate)
        lines.append(f"One every {short(gap)}: the last one {short((events - 1) * gap)} after the first.")
    return Foretold(lines)


LIMIT = Field("limit", "At most", help="The oldest first; empty: all", example="1000")


async def replay(visit: Visit) -> Act:
    rate = Field("rate", "Rate", help="Such as 50/s, 600/m or 1000/h; empty: all at once", example="50/s")
    return await _act(visit, "replay", "replayed", (rate, LIMIT))


async def discard(visit: Visit) -> Act:
    reason = Field("reason", "Note", help="Kept in the history", example="why")
    return await _act(visit, "discard", "discarded", (LIMIT, reason))
