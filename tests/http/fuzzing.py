"""Schemathesis against a server: asks all that the description allows, and much that it does not."""

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import schemathesis
from schemathesis import engine, hooks
from schemathesis.core.parameters import ParameterLocation
from schemathesis.engine import events

from duly import Duly, Event, Rejected, cron, webhook
from duly.api.nouns import acts
from duly.api.nouns.dead_letter_batches import same
from duly.api.protocol.query_string import PAGING
from duly.records.finding.cursors import write_cursor
from duly.records.finding.sorting import BEYOND_WAITING, DUE, LATEST_DUE
from duly.values.numbers import as_whole
from duly.verbs.events.dead_letters import Place
from tests.http.generated_values import drawable
from tests.make import a_user

INVALID = 422
MANY = 40
"""So many of each thing are there to be asked for: some are deleted, cancelled or replayed on the way."""

NO_ID = "00000000-0000-0000-0000-000000000000"
NO_PLACE = f"2030-01-01T00:00:00Z/{NO_ID}"
"""A place in the order of due times."""

KEPT = "load"
"""A schedule that nobody deletes, for others to depend on."""

STORED = {"webhook": "shop", "http": "plain"}
"""Targets that nobody deletes, by their channels."""

Known = dict[str, Iterator[str]]


async def seed(app: Duly) -> Known:
    """Things for the fuzzer to find, by what names them in an address: it would not guess an id."""
    await app.targets.put(STORED["webhook"], "https://hooks.example/duly")
    await app.targets.put(STORED["http"], "https://hooks.example/duly", channel="http")
    await app.every(KEPT, cron("0 9 * * *"), "report")
    letters = await _dead_letters(app)
    due = datetime.now(UTC) + timedelta(days=30)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for number in range(MANY):
        event = await app.at(due, "greet", {"number": number}, key=f"key-{number}")
        user = await app.users.add(**a_user(key=f"user-{number}"))
        await app.every(f"daily-{number}", cron("0 9 * * *"), "report", target=webhook(target=STORED["webhook"]))
        await app.targets.put(f"target-{number}", "https://hooks.example/duly")
        found["/v1/timers/{key}"].append(f"key-{number}")
        found["/v1/schedules/{name}"].append(f"daily-{number}")
        found["/v1/targets/{name}"].append(f"target-{number}")
        found["/v1/users/{id}"].append(user.id)
        found["/v1/events/{id}"] += [event.id, letters[number]]
    return {path: itertools.cycle(names) for path, names in found.items()}


async def _dead_letters(app: Duly) -> list[str]:
    @app.on("rejected")
    async def reject(event: Event) -> Rejected:
        return Rejected("nobody wants it")

    now = datetime.now(UTC)
    letters = [await app.at(now, "rejected", {"number": number}) for number in range(MANY)]
    await app.tick()
    return [letter.id for letter in letters]


def failures(
    document: dict[str, Any], config: dict[str, Any], known: Known, excepted: Callable[[str, str], bool], bare: bool
) -> Iterator[str]:
    """What it finds, each with a command that shows it again. *excepted* is asked of an operation and the path of each
    problem whether good data may have it. *bare*: as for `drawable`."""

    def before_call(context: Any, case: Any, kwargs: Any) -> None:
        _aim(case, known)

    schemathesis.hook(before_call)  # of this kind, there are none for one schema alone
    try:
        schema = schemathesis.openapi.from_dict(drawable(document, bare), config=schemathesis.Config.from_dict(config))
        asked = 0
        for told in engine.from_schema(schema).execute():
            asked += len(told.recorder.cases) if isinstance(told, events.ScenarioFinished) else 0
            yield from _found(told, excepted)
        assert asked, "nothing was asked"
    finally:
        hooks.unregister(before_call)


def _found(told: events.EngineEvent, excepted: Callable[[str, str], bool]) -> Iterator[str]:
    if isinstance(told, events.ScenarioFinished):
        for case, checks in told.recorder.checks.items():
            seen = told.recorder.interactions.get(case)
            body = b"" if seen is None or seen.response is None else seen.response.content
            operation = told.recorder.cases[case].value.operation.definition.raw["operationId"]
            for check in checks:
                found = check.failure_info
                if found is None or (check.name == TAKEN and _is_excepted(body, operation, excepted)):
                    continue
                what = " ".join([f"{told.label}: {check.name}:", *sorted({one["path"] for one in _told(body)})])
                yield f"{what}\n{found.failure.message}\n{found.code_sample}\n{body[:500].decode(errors='replace')}"
    elif isinstance(told, events.NonFatalError):
        yield f"{told.label}: {told.value!r}"
    elif isinstance(told, events.FatalError):
        raise told.exception


TAKEN = "positive_data_acceptance"


def _is_excepted(body: bytes, operation: str, excepted: Callable[[str, str], bool]) -> bool:
    """Whether all that a problem document tells is what no schema can say."""
    told = _told(body)
    return bool(told) and all(excepted(operation, one["path"]) for one in told)


def _told(body: bytes) -> list[dict[str, str]]:
    """What a problem document says of invalid values."""
    problem = json.loads(body) if body.startswith(b'{"type":"about:blank"') else {}
    return problem.get("errors", []) if problem.get("status") == INVALID else []


def _aim(case: Any, known: Known) -> None:
    """Where its parts are good ones, at what is there, and for the tenant that has it: no schema knows its name."""
    if _is_good(case, ParameterLocation.PATH):
        path = next((path for path in known if case.operation.path.startswith(path)), None)
        if path is not None:
            case.path_parameters = {path.rpartition("{")[2].rstrip("}"): next(known[path])}
    if _is_good(case, ParameterLocation.HEADER) and "Duly-Tenant" in (case.headers or {}):
        case.headers["Duly-Tenant"] = "default"
    if _is_good(case, ParameterLocation.QUERY):
        case.query = _aimed_query(case.query or {}, case.operation.path)
    if _is_good(case, ParameterLocation.BODY) and isinstance(case.body, dict):
        case.body = _aimed(case.body, {"tenant": "default", **(case.path_parameters or {})})
        if case.body.get("cursor") is not None:
            case.body["cursor"] = _cursor(case.body, case.operation.path)


def _aimed_query(query: dict[str, Any], path: str) -> dict[str, Any]:
    aimed = {**query, "schedule": KEPT} if "schedule" in query else dict(query)
    by_due = query.get("sort") in (DUE, LATEST_DUE)
    if by_due:  # of what waits alone
        for field in (*BEYOND_WAITING, "status"):
            aimed.pop(field, None)
    if "after" in query and path == "/v1/events":
        aimed["after"] = NO_PLACE if by_due else NO_ID
    if "cursor" in query:
        aimed.pop("after", None)  # which goes without a cursor, as no schema can say
        filters = {name: str(value) for name, value in aimed.items() if name not in PAGING}
        aimed["cursor"] = write_cursor(filters, "0" if path.endswith("/history") else NO_PLACE if by_due else NO_ID)
    return aimed


def _is_good(case: Any, part: ParameterLocation) -> bool:
    if case.meta is None:
        return False
    made = case.meta.components.get(part)
    return bool((case.meta.generation if made is None else made).mode.is_positive)


def _aimed(body: dict[str, Any], own: dict[str, str]) -> dict[str, Any]:
    """What a body says of itself is as in its address, and what it names is there."""
    aimed = {field: own[field] if field in own and value is not None else value for field, value in body.items()}
    if isinstance(chosen := body.get("filter"), dict) and "schedule" in chosen:
        aimed["filter"] = {**chosen, "schedule": KEPT}
    if isinstance(before := body.get("depends_on"), dict) and before.get("schedule") is not None:
        aimed["depends_on"] = {**before, "schedule": KEPT}
    for channel, said in (body.get("target") or {}).items():
        if isinstance(said, dict) and "target" in said:
            aimed["target"] = {channel: {**said, "target": STORED[channel]}}
    return aimed


def _cursor(body: dict[str, Any], path: str) -> str:
    """What a request for all that match would have been answered, had there been too many for one. What one for dead
    letters can say *beside* which ones and how many depends on what it does to them."""
    if path.startswith("/v1/schedules/"):
        return write_cursor(acts.same(body), "daily")
    if path.endswith("/cancel"):
        return write_cursor(acts.same(body), NO_ID)
    beside = "rate" if path.endswith("/replay") else "reason"
    said = {field: as_whole(body.get(field)) for field in ("filter", beside, "limit")}
    return write_cursor(same(said), msgspec.json.encode(Place(datetime.now(UTC))).decode())
