"""Requests with ``?dry_run=true``: the answer has the consequence of an act that is not carried out."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from duly.api.description.schema_words import choice, zone
from duly.api.protocol.query_string import BOOLEANS, read_boolean
from duly.api.protocol.request import ApiRequest
from duly.errors import Invalid, Problem
from duly.records.figures.consequence import Consequence
from duly.records.schedule import Schedule
from duly.records.user import User
from duly.rules.notation import zone_problems

R = TypeVar("R", Schedule, User)

DRY_RUN = "dry_run"
VIEWER = "viewer"

QUERY: Mapping[str, Any] = {
    DRY_RUN: choice(
        *BOOLEANS, description="Change nothing: the answer has the `consequence`, and what else it would have"
    ),
    VIEWER: {**zone, "description": "With dry_run=true: a time zone for `viewer_at` of the next occurrences"},
}
"""The parameters of an operation that can be a dry run."""


def is_dry_run(query: Mapping[str, str]) -> bool:
    """Whether a request changes nothing, so that it needs no transaction and no idempotency key."""
    return query.get(DRY_RUN) == "true"


class DryRun:
    """What a request says about a dry run, with the problems of it."""

    def __init__(self, ask: ApiRequest) -> None:
        self.problems: list[Problem] = []
        asked = read_boolean(DRY_RUN, ask.query.get(DRY_RUN, "false"))
        self.asked = asked is True
        self._viewer = ask.query.get(VIEWER)
        if isinstance(asked, Problem):
            self.problems.append(asked)
        elif self._viewer is not None and not self.asked:
            self.problems.append(Problem(VIEWER, "can only be given together with dry_run=true"))
        if self._viewer is not None:
            self.problems += [problem._replace(path=VIEWER) for problem in zone_problems(self._viewer)]

    def require_valid(self) -> None:
        if self.problems:
            raise Invalid(self.problems)

    def seen(self, consequence: Consequence) -> Consequence:
        """The consequence in the zone of the viewer as well, if the request names one."""
        return consequence if self._viewer is None else consequence.seen_from(self._viewer)

    def told(self, record: R) -> R:
        """The same for the consequence of a schedule or user; unchanged if the act was carried out."""
        found = record.consequence
        return record if found is None else msgspec.structs.replace(record, consequence=self.seen(found))
