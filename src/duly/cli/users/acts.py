"""``duly users add``, ``update`` and ``delete``."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.cli.batch import Reason
from duly.cli.invocation import Hidden, Invocation, person, require_file
from duly.cli.names import DEFAULT_TENANT
from duly.cli.output import counted, note, print_json, screen
from duly.cli.payloads import read_payload
from duly.cli.schedules.dry_run import IN_EARNEST, DryRunOptions, consequence_view
from duly.cli.users.names import find_user
from duly.cli.users.views import done_to, planned
from duly.decide.calendars.users import OPTIONAL, changes_of
from duly.duly import Duly
from duly.errors import Invalid, Misuse, Problem
from duly.records.event import EVENT_JSON, Status
from duly.records.specs import InStatus, OfUser
from duly.records.user import USER_JSON, User
from duly.verbs.events.events import MOST

Name = Annotated[str, Parameter(help="Id or key of the user", metavar="ID")]
Tenant = Annotated[
    str | None, Parameter(help="Only in this tenant; without it, a key is looked up in the tenant default")
]

JSON_OPTIONS = ("target", "attributes")


def register(app: App) -> None:
    app.command(add, sort_key=2)
    app.command(update, sort_key=4)
    app.command(delete, sort_key=5)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class UserOptions:
    """Options for the fields of a user."""

    first_name: Annotated[str | None, Parameter(metavar="NAME")] = None
    last_name: Annotated[str | None, Parameter(metavar="NAME")] = None
    date_of_birth: Annotated[str | None, Parameter(help="Such as 1990-03-15", metavar="DATE")] = None
    timezone: Annotated[str | None, Parameter(help="Such as Europe/Brussels", metavar="ZONE")] = None
    key: Annotated[str | None, Parameter(help="Your own id of the user; unique in the tenant")] = None
    anniversary: Annotated[str | None, Parameter(help="Such as 2015-06-20", metavar="DATE")] = None
    delivery_time: Annotated[
        str | None,
        Parameter(help="Local time of the user's events, such as 08:30 (default: DULY_DELIVERY_TIME)", metavar="TIME"),
    ] = None
    leap: Annotated[
        str | None, Parameter(help="Day for 29 February in other years: feb28, mar1 or skip", metavar="HOW")
    ] = None
    target: Annotated[str | None, Parameter(help="Target, as JSON (default: Python handlers)", metavar="JSON")] = None
    attributes: Annotated[
        str | None,
        Parameter(
            help="Attributes to change, as a JSON object; null removes one",
            metavar="JSON",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """The given fields. Text that is not valid JSON stays text: the check of the user refuses it together with all
        other problems; see ``explained``."""
        fields: dict[str, Any] = {name: value for name, value in asdict(self).items() if value is not None}
        for name in JSON_OPTIONS:
            if name in fields:
                with contextlib.suppress(Invalid):
                    fields[name] = read_payload(fields[name], name)
        return fields

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Replaces the error for a field that is not valid JSON by one that says so."""
        try:
            yield
        except Invalid as error:
            raise Invalid([self._why(problem) for problem in error.problems]) from None

    def _why(self, problem: Problem) -> Problem:
        if problem.path in JSON_OPTIONS and (written := getattr(self, problem.path)) is not None:
            try:
                read_payload(written, problem.path)
            except Invalid as error:
                return error.problems[0]
        return problem


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NewUserFields(UserOptions):
    """Options for the fields of a new user. The check of the user requires them, not the parser, so that all missing
    ones are reported at once."""

    first_name: Annotated[str | None, Parameter(help="Required", metavar="NAME")] = None
    last_name: Annotated[str | None, Parameter(help="Required", metavar="NAME")] = None
    date_of_birth: Annotated[str | None, Parameter(help="Required, such as 1990-03-15", metavar="DATE")] = None
    timezone: Annotated[str | None, Parameter(help="Required, such as Europe/Brussels", metavar="ZONE")] = None
    attributes: Annotated[
        str | None, Parameter(help="Further attributes for event types, as a JSON object", metavar="JSON")
    ] = None


NOTHING = UserOptions()
NOBODY = NewUserFields()


# -- add


def add(
    *,
    fields: NewUserFields = NOBODY,
    tenant: Annotated[str, Parameter(help="Tenant of the user (default: default)")] = DEFAULT_TENANT,
    invocation: Hidden,
) -> None:
    """Add a user and plan the user's events. --app names the app with your own event types.

    duly users add --first-name Ada --last-name Lovelace --date-of-birth 1815-12-10 --timezone Europe/London
    """
    with fields.explained():
        asyncio.run(_add(fields.given(), tenant, invocation))


async def _add(fields: dict[str, Any], tenant: str, invocation: Invocation) -> None:
    async with invocation.duly_with_event_types() as duly:
        user = await duly.users.add(tenant=tenant, by=person(), **fields)
        await _tell(duly, user, "added", "", invocation)


async def _tell(duly: Duly, user: User, change: str, what: str, invocation: Invocation) -> None:
    """Prints what was done, and the planned events."""
    ahead = await duly.users.ahead(user.id)
    strangers = sorted({head.type for head in ahead} - set(duly.event_types.names()))
    if invocation.json:
        told = {"change": change, "ahead": [EVENT_JSON.write(event) for event in ahead], "unregistered": strangers}
        print_json(USER_JSON.write(user) | told)
        return
    console = screen()
    console.print(done_to(user, change, what), soft_wrap=True)
    for warning in user.noted:
        note(f"warning: {warning}")
    console.print(planned(user, ahead, await duly.now(), console.width))
    if strangers and change == "changed":
        _tell_of(strangers)


# -- update


def update(
    user: Name,
    /,
    *,
    fields: UserOptions = NOTHING,
    clear: Annotated[
        list[str] | None,
        Parameter(help=f"Remove an optional field: {', '.join(OPTIONAL)}; may be repeated", metavar="FIELD"),
    ] = None,
    tenant: Tenant = None,
    dry: DryRunOptions = IN_EARNEST,
    invocation: Hidden,
) -> None:
    """Change some fields of a user. Events that have not started are updated as well.

    duly users update ada --timezone America/New_York --clear anniversary
    """
    dry.check()
    with fields.explained():
        asyncio.run(_update(user, _changes(fields.given(), clear or []), tenant, dry, invocation))


def _changes(given: dict[str, Any], cleared: Sequence[str]) -> dict[str, Any]:
    away = [field.replace("-", "_") for field in cleared]
    for field in away:
        if field not in OPTIONAL:
            raise Misuse(f"--clear {field!r:.50} is not possible: only these can be removed: {', '.join(OPTIONAL)}")
        if field in given:
            raise Misuse(f"--clear {field} and --{field.replace('_', '-')} cannot be used together: give one of them")
    if not given and not away:
        raise Misuse("nothing to change: give, for example, --timezone Europe/Brussels or --clear anniversary")
    return given | dict.fromkeys(away)


async def _update(
    name: str, changes: dict[str, Any], tenant: str | None, dry: DryRunOptions, invocation: Invocation
) -> None:
    duly = invocation.duly_with_event_types()
    require_file(duly)
    async with duly:
        before = await find_user(duly, name, tenant)
        after = await duly.users.update(before.id, tenant=tenant, by=person(), dry_run=dry.dry_run, **changes)
        if dry.dry_run:
            _tell_dry(after, dry, invocation)
            return
        changed = sorted(field for field in changes_of(before, after) if "." not in field)
        if changed:
            await _tell(duly, after, "changed", f": {', '.join(changed)}", invocation)
        else:
            await _tell(duly, after, "unchanged", "", invocation)


def _tell_dry(user: User, dry: DryRunOptions, invocation: Invocation) -> None:
    told = dry.seen(user.consequence)
    if invocation.json:
        print_json(USER_JSON.write(user) | {"consequence": told})
    else:
        screen().print(consequence_view(f"{user.first_name} {user.last_name}", told))


def _tell_of(strangers: Sequence[str]) -> None:
    note(
        f"not registered here as event types: {', '.join(strangers)}. Their planned events "
        "follow a new time zone, but no other change, until you run `duly users refresh --app …` with the "
        "app that registers them"
    )


# -- delete


def delete(
    user: Name,
    /,
    *,
    tenant: Tenant = None,
    reason: Reason = None,
    dry: DryRunOptions = IN_EARNEST,
    invocation: Hidden,
) -> None:
    """Delete a user, without asking for confirmation. Waiting events are cancelled; running events finish."""
    dry.check()
    asyncio.run(_delete(user, tenant, reason, dry, invocation))


async def _delete(
    name: str, tenant: str | None, reason: str | None, dry: DryRunOptions, invocation: Invocation
) -> None:
    async with invocation.duly_for_looking() as duly:
        found = await find_user(duly, name, tenant)
        if dry.dry_run:
            user = await duly.users.delete(found.id, tenant=tenant, by=person(), reason=reason, dry_run=True)
            _tell_dry(user, dry, invocation)
            return
        waiting = await _events(duly, found, Status.PENDING)
        user = await duly.users.delete(found.id, tenant=tenant, by=person(), reason=reason)
        cancelled = len(waiting & await _events(duly, found, Status.CANCELLED))
    if invocation.json:
        print_json({"id": user.id, "tenant": user.tenant, "key": user.key, "cancelled": cancelled})
    else:
        waited = f": {counted(cancelled, 'waiting event')} {'was' if cancelled == 1 else 'were'} cancelled"
        screen().print(done_to(user, "deleted", waited), soft_wrap=True)


async def _events(duly: Duly, user: User, status: Status) -> set[str]:
    return {event.id for event in await duly.events.find(OfUser(user.id) & InStatus(status), limit=MOST)}
