"""The acts on schedules, each in the file of its kind."""

from duly.dashboard.acts import schedule_edits, schedule_runs, schedule_states
from duly.dashboard.acts.act import Prepare, add_act
from duly.dashboard.pages import Pages

ON_ONE: dict[str, Prepare] = {
    "pause": schedule_states.pause,
    "resume": schedule_states.resume,
    "delete": schedule_states.delete,
    "trigger": schedule_runs.trigger,
    "reschedule": schedule_runs.reschedule,
    "skip": schedule_runs.skip,
    "backfill": schedule_runs.backfill,
    "edit": schedule_edits.edit,
}
"""The acts on one schedule, by the last part of their address."""


def add_acts(pages: Pages) -> None:
    """Adds the pages of all acts on schedules."""
    add_act(pages, "/new-schedule", schedule_edits.create)
    for verb, prepare in ON_ONE.items():
        add_act(pages, f"/schedules/{{name}}/{verb}", prepare)
