"""JSON Schemas of when a schedule fires: its rule, and the policies beside the rule."""

from collections.abc import Mapping
from datetime import timedelta

from duly.api.description.schema_words import (
    Schema,
    a_time,
    choice,
    each_maybe,
    given_instant,
    left_out,
    listed,
    local,
    maybe,
    moment,
    name,
    span,
    spans,
    start_of_rule,
    taken,
    text,
    whole,
)
from duly.rules.notation import LONGEST_EVERY, MOST_EXDATES, SHORTEST
from duly.rules.policies import (
    LONGEST_TOLERANCE,
    LONGEST_WITHIN,
    MISFIRES,
    MODES,
    MOST_CONCURRENT,
    MOST_EXCLUSIONS,
    MOST_MISSED,
    OVERLAPS,
    SHORTEST_WITHIN,
    SPANS,
)
from duly.rules.rrule_text import MOST_CHARACTERS
from duly.rules.templates import TEMPLATES
from duly.rules.yearly import FIRST_YEAR, LAST_YEAR, LEAPS

_by_date = choice("date", description="date: each occurrence is identified by its date")
_rrule: Schema = text(
    1,
    MOST_CHARACTERS,
    pattern=r"^[\t\n\r -~]+$",
    format="rrule",
    description="RRULE of RFC 5545, with or without lines of DTSTART and EXDATE; it must have an occurrence "
    "and not take too long to evaluate",
    examples=["FREQ=MONTHLY;BYDAY=-1FR"],
)
_BY_DAYS = (
    r"^[\t\n\r -~]*[Ff][Rr][Ee][Qq]=([Dd][Aa][Ii]|[Ww][Ee][Ee][Kk]|[Mm][Oo][Nn][Tt][Hh]|[Yy][Ee][Aa][Rr])[Ll][Yy]"
    r"[\t\n\r -~]*$"
)
_of_rrule: Mapping[str, Schema] = {
    "start": maybe(start_of_rule),
    "exdate": maybe(listed(left_out, maxItems=MOST_EXDATES)),
}
_DAY = r"^((0?[13578]|1[02])-(0?[1-9]|[12][0-9]|3[01])|(0?[469]|11)-(0?[1-9]|[12][0-9]|30)|0?2-(0?[1-9]|[12][0-9]))$"

rule: Schema = {
    "description": "When it fires",
    "oneOf": [
        taken(
            {
                "cron": text(
                    1,
                    1000,
                    pattern=r"^[A-Za-z0-9*/,?#@\s-]+$",
                    format="cron",
                    description="Cron expression: minute, hour, day of month, month, day of week; or six "
                    "fields, with seconds first; or an alias such as @daily. It must have an occurrence.",
                    examples=["0 9 * * MON-FRI", "@daily"],
                )
            },
            "cron",
        ),
        taken({"every": span(SHORTEST, LONGEST_EVERY), "start": maybe(given_instant)}, "every"),
        taken({"rrule": _rrule, **_of_rrule, "named": {"type": "null"}}, "rrule"),
        taken({"rrule": {**_rrule, "pattern": _BY_DAYS}, **_of_rrule, "named": _by_date}, "rrule", "named"),
        taken(
            {
                "yearly": {
                    "type": "string",
                    "pattern": _DAY,
                    "description": "Month and day",
                    "examples": ["02-29"],
                },
                "at": maybe(a_time),
                "leap": maybe(choice(*LEAPS)),
                "since": maybe(whole(FIRST_YEAR, LAST_YEAR)),
            },
            "yearly",
        ),
        taken({"at": given_instant, "named": {"type": "null"}}, "at"),
        taken({"at": local, "named": maybe(_by_date)}, "at"),
        taken({"template": choice(*TEMPLATES)}, "template"),
    ],
}

dst: Schema = taken(
    {"gap": maybe(choice("after", "shift", "skip")), "overlap": maybe(choice("first", "second", "both"))},
    description="Daylight saving: what happens if the local time does not exist (gap) or occurs twice (overlap)",
)

_policy: Schema = choice(*MISFIRES)
_misfire: Mapping[str, Schema] = {
    "policy": _policy,
    "tolerance": span(timedelta(), LONGEST_TOLERANCE),
    "limit": whole(1, MOST_MISSED),
}
_depends_on: Mapping[str, Schema] = {
    "schedule": name("name", description="Name of an existing schedule that does not depend on this one"),
    "within": span(SHORTEST_WITHIN, LONGEST_WITHIN),
}
_day_of_rest: Schema = {
    "type": "string",
    "pattern": r"^\s*([0-9]{4}-[0-9]{2}-[0-9]{2}(/[0-9]{4}-[0-9]{2}-[0-9]{2})?|[0-9]{2}-[0-9]{2}|[A-Za-z]{3,9}"
    r"|[Hh][Oo][Ll][Ii][Dd][Aa][Yy][Ss]:.+)\s*$",
    "format": "days",
    "description": "A date, a range of two dates with a slash, a day of every year (12-25), a weekday "
    "(SAT), or the holidays of a country or region (holidays:BE)",
    "examples": ["2026-12-24", "2026-12-24/2027-01-02", "12-25", "SAT", "holidays:BE", "holidays:US-CA"],
}

policies: Mapping[str, Schema] = {
    "misfire": {"anyOf": [taken(_misfire), _policy]},
    "overlap": choice(*OVERLAPS),
    "max_concurrent": whole(1, MOST_CONCURRENT),
    "depends_on": taken(_depends_on, "schedule", "within"),
    "start": moment,
    "end": {**moment, "description": f"{moment['description']}; after the start"},
    "dst": dst,
    "exclude": {"anyOf": [listed(_day_of_rest, maxItems=MOST_EXCLUSIONS), _day_of_rest]},
    "mode": choice(*MODES),
    **spans(SPANS),
}

policy_changes: Mapping[str, Schema] = {
    "misfire": {"anyOf": [taken(each_maybe(_misfire)), _policy]},
    "depends_on": taken(each_maybe(_depends_on)),
}
"""The same policies in a change, which may set single fields; null resets a field to its default."""
