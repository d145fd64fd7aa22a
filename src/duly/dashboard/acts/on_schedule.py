"""What all acts on one schedule share: the schedule itself, its addresses, and local times."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from duly.dashboard.acts.act import HttpCall, Upcoming
from duly.dashboard.acts.options import option
from duly.dashboard.visit import Visit, part
from duly.decide.targets.origin import starts_no_command
from duly.errors import Invalid, Problem
from duly.records.schedule import Schedule
from duly.rules.policies import read_policies
from duly.rules.zones import to_wall

COMMAND_LOCKED = (
    "This schedule runs a command on a machine of yours. It is never edited here: change it where it was made, in "
    "Python or with duly schedules put."
)
COMMAND_REFUSED = "This schedule runs a command on a machine of yours: here, only an admin key may do this."


async def schedule_of(visit: Visit) -> Schedule:
    return await visit.own.schedules.get(visit.named("name"), tenant=visit.tenant)


def page_of_schedule(visit: Visit, schedule: Schedule) -> str:
    return visit.url(f"/schedules/{part(schedule.name)}")


def call_of(schedule: Schedule, verb: str, body: Any = None) -> HttpCall:
    return HttpCall("POST", f"/v1/schedules/{part(schedule.name)}/{verb}", body)


def words_of(verb: str, schedule: Schedule, options: Mapping[str, str], *after: str) -> list[str]:
    """The command of an act, after ``duly``; *after* stands behind the name. A name that looks like an option stands
    behind the options."""
    said = [word for name, value in options.items() for word in option(name, value)]
    if schedule.name.startswith("-"):
        return ["schedules", verb, *said, "--", schedule.name, *after]
    return ["schedules", verb, schedule.name, *after, *said]


def may_start(visit: Visit, schedule: Schedule) -> bool:
    """Whether this visitor may start the schedule at a time of their own choice."""
    return not starts_no_command(schedule.target, visit.own.channels)


def local_text(instant: datetime, schedule: Schedule) -> str:
    """An instant as the schedule's clocks show it, as a form has it."""
    wall = to_wall(instant, schedule.timezone)
    return wall.replace(microsecond=0).isoformat(timespec="seconds")


def read_local(text: str, schedule: Schedule, field: str) -> datetime:
    """The instant of a local time in the schedule's zone, or of an instant with its own offset."""
    if not text.strip():
        raise Invalid([Problem(field, "is missing")])
    try:
        found = read_policies({"start": text.strip()}, schedule.timezone).start
    except Invalid as error:
        raise Invalid([Problem(field, problem.message) for problem in error.problems]) from None
    assert found is not None
    return found.astimezone(UTC)


def upcoming(instant: datetime, schedule: Schedule, note: str | None = None) -> Upcoming:
    """An instant as the forms list it."""
    return Upcoming(instant, to_wall(instant, schedule.timezone).isoformat(" "), note)
