"""An act: the form that a person fills in, what it would change, how to do the same elsewhere, and doing it."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from duly.dashboard.access import cookies
from duly.dashboard.pages import Pages
from duly.dashboard.visit import Receipt, Visit, problems_by_field
from duly.decide.series.preview import Preview
from duly.errors import Conflict, DulyError, Forbidden, Invalid, NotFound
from duly.records.api_key import Scope

SHOW_PAYLOAD = "payload"
"""The parameter with which a visitor whose key only reads asks for a payload. It fills in no field."""

Values = Mapping[str, str]
"""What was filled in, by the names of the fields."""


class Field(NamedTuple):
    """A field of a form."""

    name: str
    label: str
    kind: str = "text"  # text, number, date, select, checkbox, text-area, hidden, or another type of an input
    help: str = ""
    example: str = ""
    options: Sequence[tuple[str, str]] = ()  # of a select: values and labels
    needed: bool = False
    rows: int = 6  # of a text-area


class Upcoming(NamedTuple):
    """An occurrence that follows after an act."""

    due: datetime
    local: datetime | str
    note: str | None


class Foretold(NamedTuple):
    """What an act would change, in words, and what follows then."""

    lines: Sequence[str]
    upcoming: Sequence[Upcoming | Preview] = ()
    zone: str = ""
    title: str = "What this changes"


class Piped(NamedTuple):
    """A command that reads its standard input."""

    text: str
    words: Sequence[str]  # after `duly`


class HttpCall(NamedTuple):
    """The request to the HTTP API that does the same."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = {}


def _own_name(path: str, values: Values) -> str:
    """The field that a problem is about, where fields are named as in the API."""
    return path.partition(".")[0].partition("[")[0]


Later = Callable[[], Awaitable[Receipt]]
"""The rest of an act, which begins when the transaction of the visit has ended."""


@dataclass(frozen=True, slots=True)
class Act:
    """An act on one thing, as its form shows it."""

    title: str
    verb: str  # the button
    command: Callable[[Values], Sequence[str] | Piped]  # after `duly`
    call: Callable[[Values], HttpCall | None]  # None: no request does the same
    run: Callable[[Visit, Values], Awaitable[Receipt | Later]]
    back: str  # the page to return to
    what: str = ""
    fields: Sequence[Field] = ()
    values: Values = field(default_factory=dict)  # at the beginning
    foretell: Callable[[Visit, Values], Awaitable[Foretold | None]] | None = None
    danger: bool = False  # it cannot be undone
    needs: Scope = Scope.WRITE
    allowed: bool = True
    not_allowed: str = ""
    form: str = "parts/fields.html"  # the template of the fields
    shows: Mapping[str, Any] = field(default_factory=dict)  # what that template needs besides the values
    field_of: Callable[[str, Values], str] = _own_name  # the field that a problem is about, by the problem's path
    wide: bool = False  # a page of its own, not a dialog

    @property
    def foretells(self) -> bool:
        return self.foretell is not None


Prepare = Callable[[Visit], Awaitable[Act]]


def add_act(pages: Pages, path: str, prepare: Prepare, *, writes: bool = True) -> None:
    """Adds the pages of an act: its form, what it would change, and doing it. Visitors with a read key see the form.
    With *writes* False, the act does not write within the tenant's session, which could not: it has one of its own."""

    async def form(visit: Visit) -> Response:
        act = await _prepared(visit, prepare)
        asked = {name: value for name, value in visit.query.items() if name != SHOW_PAYLOAD}
        return await _shown(visit, act, {**act.values, **asked}, {}, 200)

    async def send(visit: Visit) -> Response:
        act = await _prepared(visit, prepare)
        if visit.query.get("before") == "1":
            return await _before(visit, act)
        if not visit.caller.scope.covers(act.needs):
            raise Forbidden(f"this needs a key with the scope {act.needs.value}: sign in with another key")
        try:
            done = await act.run(visit, visit.form)
        except Invalid as error:
            return await _shown(visit, act, visit.form, _problems(act, error, visit.form), 422)
        except (Conflict, NotFound) as error:
            return await _shown(visit, act, visit.form, {"": [str(error)]}, 409)
        if isinstance(done, Receipt):
            return _received(visit, act, done)

        async def rest() -> Response:
            return _received(visit, act, await done())

        visit.afterwards.append(rest)
        return Response(status_code=204)

    pages.get(path)(form)
    pages.post(path, needs=Scope.READ, writes=writes)(send)


def _received(visit: Visit, act: Act, receipt: Receipt) -> Response:
    """Leads to the page that the visitor came from, which shows the receipt."""
    response = visit.redirect(receipt.to or (act.back if receipt.failed else _back(visit, act)))
    cookies.set_cookie(response, visit.request, cookies.RECEIPT, msgspec.json.encode(receipt).hex())
    return response


async def _prepared(visit: Visit, prepare: Prepare) -> Act:
    act = await prepare(visit)
    if visit.caller.scope.covers(act.needs):
        return act
    told = f"Your key has the scope {visit.caller.scope.value}; this needs {act.needs.value}."
    return replace(act, allowed=False, not_allowed=told)


async def _shown(
    visit: Visit, act: Act, values: Values, problems: Mapping[str, Sequence[str]], status: int
) -> Response:
    template = "parts/act.html" if visit.is_fragment else "act.html"
    return visit.page(
        template,
        status=status,
        act=act,
        action=visit.url(visit.path),
        back=_back(visit, act),
        values=values,
        problems=problems,
        here_is="",
        consequence=None,  # asked for by the form itself, once it is shown
        **act.shows,
        **_elsewhere(visit, act, values),
    )


async def _before(visit: Visit, act: Act) -> Response:
    told = await _foretold(visit, act, visit.form)
    return visit.page("parts/before.html", consequence=told, **_elsewhere(visit, act, visit.form))


async def _foretold(visit: Visit, act: Act, values: Values) -> Foretold | None:
    if act.foretell is None:
        return None
    try:
        return await act.foretell(visit, values)
    except Invalid as error:
        return Foretold([f"{problem.path}: {problem.message}" for problem in error.problems])
    except DulyError as error:
        return Foretold([str(error)])


def _elsewhere(visit: Visit, act: Act, values: Values) -> dict[str, Any]:
    try:
        command, call = act.command(values), act.call(values)
    except (Invalid, ValueError):  # what was filled in cannot be read yet; the form says so when it is sent
        return {"command": "", "curl": ""}
    return {"command": command_line(visit, command), "curl": "" if call is None else curl(visit, call)}


def command_line(visit: Visit, asked: Sequence[str] | Piped) -> str:
    """The command that does the same."""
    words = [*(asked.words if isinstance(asked, Piped) else asked)]
    if visit.tenant != "default":
        place = words.index("--") if "--" in words else len(words)
        words[place:place] = ["--tenant", visit.tenant]
    line = shlex.join(["duly", *words])
    return f"printf %s {shlex.quote(asked.text)} | {line}" if isinstance(asked, Piped) else line


def curl(visit: Visit, call: HttpCall) -> str:
    """The request that does the same, for curl."""
    words = ["curl", "-X", call.method, f"{visit.server}{call.path}"]
    if visit.caller.key is not None:
        words += ["-H", "Authorization: Bearer $DULY_KEY"]
    for name, value in call.headers.items():
        words += ["-H", f"{name}: {value}"]
    if call.body is not None:
        words += ["-H", "Content-Type: application/json", "-d", msgspec.json.encode(call.body).decode()]
    return shlex.join(words).replace("'Authorization: Bearer $DULY_KEY'", '"Authorization: Bearer $DULY_KEY"')


def _problems(act: Act, error: Invalid, values: Values) -> dict[str, list[str]]:
    """The problems at the fields that they are about; those of no field at the top."""
    known = {each.name for each in act.fields} | set(act.shows.get("field_names", ()))
    found: dict[str, list[str]] = {}
    for path, messages in problems_by_field(error.problems).items():
        first = act.field_of(path, values)
        if first in known:
            plain = first == path or act.field_of is not _own_name
            found.setdefault(first, []).extend(messages if plain else [f"{path}: {one}" for one in messages])
        else:
            found.setdefault("", []).extend(f"{path}: {one}" if path else one for one in messages)
    return found


def _back(visit: Visit, act: Act) -> str:
    """The page to return to: where the visitor came from, if that is a page of ours."""
    wanted = visit.form.get("back", "")
    ours = wanted.startswith(f"{visit.root}/") and not wanted.startswith("//") and "\\" not in wanted
    return wanted if ours and wanted.isprintable() else act.back
