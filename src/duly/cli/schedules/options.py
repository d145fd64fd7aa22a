"""Options of the command line for schedules, and their JSON."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from cyclopts import Parameter

from duly.cli.instants import resolve_in, without_delay
from duly.cli.spans import given_spans, with_spans
from duly.duly import Duly
from duly.errors import Misuse
from duly.rules.policies import SPANS
from duly.rules.recurrence import DEFAULT_ZONE
from duly.rules.templates import TEMPLATES

KINDS = {"cron": "cron", "every": "every", "rrule": "rrule", "yearly": "yearly", "once": "at", "template": "template"}
"""The options that are rules, and the names of their rules in JSON."""

A_RULE = "--cron '0 9 * * MON', --every 15m, --rrule, --yearly 12-24, --once WHEN or --template NAME"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """Options for when a schedule fires: one rule, and its time zone."""

    cron: Annotated[
        str | None,
        Parameter(
            help="Cron expression: five fields, six with seconds first, or an alias such as @daily", metavar="EXPR"
        ),
    ] = None
    every: Annotated[str | None, Parameter(help="Fixed interval, such as 15m", metavar="SPAN")] = None
    rrule: Annotated[
        str | None, Parameter(help="RFC 5545 recurrence rule, such as 'FREQ=MONTHLY;BYDAY=-1FR'", metavar="TEXT")
    ] = None
    yearly: Annotated[str | None, Parameter(help="Date in every year, such as 02-29", metavar="MM-DD")] = None
    once: Annotated[
        str | None,
        Parameter(help="One time: an instant, a local time in --timezone, or a delay such as +2h", metavar="WHEN"),
    ] = None
    template: Annotated[
        str | None, Parameter(help="Name of a template; `duly templates list` shows them", metavar="NAME")
    ] = None
    at: Annotated[str | None, Parameter(help="With --yearly: local time (default: 09:00)", metavar="HH:MM")] = None
    leap: Annotated[
        str | None, Parameter(help="With --yearly 02-29: day in other years, feb28, mar1 or skip", metavar="HOW")
    ] = None
    anchor: Annotated[str | None, Parameter(help="With --every or --rrule: start of counting", metavar="WHEN")] = None
    timezone: Annotated[
        str | None, Parameter(help="Time zone, such as Europe/Brussels (default: UTC)", metavar="ZONE")
    ] = None

    @property
    def kinds(self) -> list[str]:
        """The rules that were given; valid options have exactly one."""
        return [kind for kind in KINDS if getattr(self, kind) is not None]

    @property
    def says_when(self) -> bool:
        """Whether there is a rule, or a detail of one."""
        return bool(self.kinds) or any(one is not None for one in (self.at, self.leap, self.anchor))

    def own_template(self) -> tuple[str | None, "RuleOptions"]:
        """The name of a template that is not built in, which is more than a rule, and the other options."""
        if self.template is None or self.template in TEMPLATES:
            return None, self
        return self.template, replace(self, template=None)

    async def rule(self, duly: Duly) -> dict[str, Any]:
        if len(self.kinds) != 1:
            given = " and ".join(f"--{kind}" for kind in self.kinds)
            raise Misuse(
                f"{given} cannot be used together: give one rule" if given else f"a rule is missing: give {A_RULE}"
            )
        [kind] = self.kinds
        self._refuse_details_of_others(kind)
        written: dict[str, Any] = {KINDS[kind]: getattr(self, kind)}
        if self.once is not None:
            written["at"] = await without_delay(duly, self.once, "once")
        if kind == "yearly":
            written |= {name: value for name, value in (("at", self.at), ("leap", self.leap)) if value is not None}
        if self.anchor is not None and kind == "every":  # an instant, whereas an RRULE begins at a local time
            written["start"] = await resolve_in(duly, self.anchor, self.timezone or DEFAULT_ZONE, "anchor")
        elif self.anchor is not None:
            written["start"] = await without_delay(duly, self.anchor, "anchor")
        return written

    def _refuse_details_of_others(self, kind: str) -> None:
        for name, kinds in (("at", ("yearly",)), ("leap", ("yearly",)), ("anchor", ("every", "rrule"))):
            if getattr(self, name) is not None and kind not in kinds:
                raise Misuse(f"--{name} goes with {' or '.join(f'--{one}' for one in kinds)}, not with --{kind}")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TimetableOptions:
    """Options that affect when a schedule fires, besides the rule."""

    start: Annotated[
        str | None, Parameter(help="No occurrence before this: an instant or a local time", metavar="WHEN")
    ] = None
    end: Annotated[str | None, Parameter(help="No occurrence after this", metavar="WHEN")] = None
    exclude: Annotated[
        list[str] | None,
        Parameter(help="Days to exclude, such as SAT, 12-25 or holidays:BE; may be repeated", metavar="DAYS"),
    ] = None
    gap: Annotated[
        str | None,
        Parameter(
            help="Daylight saving, time does not exist: after (fire after the gap), shift (by its length) or skip",
            metavar="HOW",
        ),
    ] = None
    dst_overlap: Annotated[
        str | None, Parameter(help="Daylight saving, time occurs twice: first, second or both", metavar="WHICH")
    ] = None

    async def policies(self, duly: Duly) -> dict[str, Any]:
        dst = _given(gap=self.gap, overlap=self.dst_overlap)
        return _given(
            start=None if self.start is None else await without_delay(duly, self.start, "start"),
            end=None if self.end is None else await without_delay(duly, self.end, "end"),
            exclude=self.exclude or None,
            dst=dst or None,
        )


@with_spans(SPANS)
class DeliveryOptions:
    """Options for how the events of a schedule are delivered."""

    misfire: Annotated[
        str | None, Parameter(help="Missed occurrences: fire the latest (default), all, or skip them", metavar="POLICY")
    ] = None
    tolerance: Annotated[
        str | None, Parameter(help="With --misfire skip: how late still fires (default: 30s)", metavar="SPAN")
    ] = None
    limit: Annotated[int | None, Parameter(help="With --misfire all: maximum number (default: 100)", metavar="N")] = (
        None
    )
    overlap: Annotated[
        str | None, Parameter(help="While an event runs: allow the next one (default), skip or queue it",
                              metavar="POLICY")
    ] = None  # fmt: skip
    max_concurrent: Annotated[int | None, Parameter(help="Maximum number of events at once", metavar="N")] = None
    depends_on: Annotated[
        str | None, Parameter(help="Fire only if this schedule has succeeded recently (see --within)", metavar="NAME")
    ] = None
    within: Annotated[str | None, Parameter(help="With --depends-on: how recently, such as 1h", metavar="SPAN")] = None
    mode: Annotated[
        str | None, Parameter(help="live, or shadow: record what would fire, and deliver nothing", metavar="MODE")
    ] = None

    def policies(self) -> dict[str, Any]:
        if (self.depends_on is None) != (self.within is None):
            raise Misuse("--depends-on and --within must be given together, as in --depends-on load --within 1h")
        misfire = _given(policy=self.misfire, tolerance=self.tolerance, limit=self.limit)
        depends_on = _given(schedule=self.depends_on, within=self.within)
        return _given(
            misfire=misfire or None,
            overlap=self.overlap,
            max_concurrent=self.max_concurrent,
            depends_on=depends_on or None,
            mode=self.mode,
            **given_spans(SPANS, self),
        )


NO_RULE = RuleOptions()
NO_BOUNDS = TimetableOptions()
AS_USUAL = DeliveryOptions()


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
