"""Filters of schedules as options of the command line."""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.cli.schedules.dry_run import DryRunOptions
from duly.errors import Invalid, Misuse
from duly.records.filters import read_filter_of
from duly.records.finding.schedules import SCHEDULE_FIELDS, ScheduleFilter


def _told(field: str) -> str:
    return SCHEDULE_FIELDS[field].told


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """Options that filter schedules; all given ones must match."""

    name_prefix: Annotated[str | None, Parameter(help=_told("name_prefix"), metavar="TEXT")] = None
    type: Annotated[str | None, Parameter(help=_told("type"))] = None
    tag: Annotated[list[str] | None, Parameter(help="With this tag; may be repeated", metavar="TAG")] = None
    enabled: Annotated[
        bool | None, Parameter(help="Only enabled ones, or with --paused only paused ones", negative="--paused")
    ] = None
    halt_kind: Annotated[str | None, Parameter(help=_told("halt_kind"), metavar="ENDED|PAUSED|ERROR")] = None
    last_status: Annotated[str | None, Parameter(help=_told("last_status"), metavar="STATUS")] = None
    imported_from: Annotated[str | None, Parameter(help=_told("imported_from"), metavar="SOURCE")] = None
    timezone: Annotated[str | None, Parameter(help=_told("timezone"), metavar="ZONE")] = None

    def filter(self) -> ScheduleFilter:
        """The filter of the given options; raises Invalid with every problem."""
        given: dict[str, Any] = {name: getattr(self, name) for name in SCHEDULE_FIELDS}
        which, problems = read_filter_of(
            ScheduleFilter, {name: value for name, value in given.items() if value not in (None, [])}
        )
        if problems:
            raise Invalid([problem._replace(path=problem.path.replace("_", "-")) for problem in problems])
        return which


ANY_SCHEDULE = FilterOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ManyOptions(DryRunOptions):
    """Options of acts on schedules that may be selected by filters, instead of names."""

    all: Annotated[bool, Parameter(help="Instead of names: all schedules, or those that match the filters")] = False
    dry_run: Annotated[
        bool, Parameter(help="Show what this would do or, with filters, to how many of each kind; change nothing")
    ] = False
    yes: Annotated[bool, Parameter(help="With filters: do not ask for confirmation")] = False


BY_NAME = ManyOptions()


def by_filter(names: tuple[str, ...], which: FilterOptions, many: ManyOptions, *, tries: bool = False) -> bool:
    """Whether schedules are selected by filters; raises Misuse if it is not clear. *tries*: the act has a dry run for
    single schedules as well."""
    many.check()
    filtered = which != ANY_SCHEDULE
    if names and tries and not (filtered or many.all or many.yes):
        return False
    if names and (filtered or many != BY_NAME):
        options = "--all and --yes" if tries else "--all, --dry-run and --yes"
        raise Misuse(f"give either the names of schedules, or filters and {options}, not both")
    if not names and many.viewer is not None:
        raise Misuse("--viewer is for the dry run of schedules that are named")
    if not names and not filtered and not many.all:
        raise Misuse(
            "give the names of the schedules, filters such as --tag, or --all; `duly schedules list` shows them"
        )
    return not names
