"""Schemathesis against a server: asks all that the description allows, and much that it does not."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import schemathesis
from schemathesis import engine, hooks
from schemathesis.core.parameters import ParameterLocation
from schemathesis.engine import events

from duly import Duly, Event, Rejected, cron, webhook
from tests.make import a_user

MANY = 40
"""So many of each thing are there to be asked for: some are deleted, cancelled or replayed on the way."""

Known = dict[str, Iterator[str]]


async def seed(app: Duly) -> Known:
    """Things for the fuzzer to find, by what names them in an address: it would not guess an id."""
    await app.targets.put("shop", "https://hooks.example/duly")
    letters = await _dead_letters(app)
    due = datetime.now(UTC) + timedelta(days=30)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for number in range(MANY):
        event = await app.at(due, "greet", {"number": number}, key=f"key-{number}")
        user = await app.users.add(**a_user(key=f"user-{number}"))
        await app.every(f"daily-{number}", cron("0 9 * * *"), "report", target=webhook(target="shop"))
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


def failures(document: dict[str, Any], config: dict[str, Any], known: Known) -> Iterator[str]:
    """What it finds, each with a command that shows it again."""

    def before_call(context: Any, case: Any, kwargs: Any) -> None:
        _aim(case, known)

    schemathesis.hook(before_call)  # of this kind, there are none for one schema alone
    try:
        schema = schemathesis.openapi.from_dict(document, config=schemathesis.Config.from_dict(config))
        asked = 0
        for told in engine.from_schema(schema).execute():
            asked += len(told.recorder.cases) if isinstance(told, events.ScenarioFinished) else 0
            yield from _found(told)
        assert asked, "nothing was asked"
    finally:
        hooks.unregister(before_call)


def _found(told: events.EngineEvent) -> Iterator[str]:
    if isinstance(told, events.ScenarioFinished):
        for case, checks in told.recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    found = check.failure_info
                    answer = told.recorder.interactions[case].response if case in told.recorder.interactions else None
                    body = answer.content[:500].decode() if answer is not None else ""
                    yield f"{told.label}: {check.name}: {found.failure.message}\n{found.code_sample}\n{body}"
    elif isinstance(told, events.NonFatalError):
        yield f"{told.label}: {told.value!r}"
    elif isinstance(told, events.FatalError):
        raise told.exception


def _aim(case: Any, known: Known) -> None:
    """Where its address and headers are good ones, at what is there, and for the tenant that has it."""
    parts = case.meta.components if case.meta else {}
    in_path, in_headers = parts.get(ParameterLocation.PATH), parts.get(ParameterLocation.HEADER)
    path = next((path for path in known if case.operation.path.startswith(path)), None)
    if path is not None and in_path is not None and in_path.mode.is_positive:
        case.path_parameters = {path.rpartition("{")[2].rstrip("}"): next(known[path])}
    if in_headers is not None and in_headers.mode.is_positive and "Duly-Tenant" in (case.headers or {}):
        case.headers["Duly-Tenant"] = "default"
