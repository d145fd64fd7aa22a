"""The whole API against its own description, by somebody who believes none of it."""

import os
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.http.fuzzing import failures, seed
from tests.http.schema_exceptions import SCHEMA_EXCEPTIONS
from tests.http.serving import served
from tests.http.tenants import SECRET_KEY

THOROUGH = os.environ.get("DULY_EXHAUSTIVE") == "1"
"""Every boundary of every schema, on both stores: minutes instead of seconds."""

EXAMPLES = 100 if THOROUGH else 10
MOST_SHOWN = 20

CHECKS = {
    # What the schema allows is taken: neither 400 nor 422, except SCHEMA_EXCEPTIONS. If-Match of another state is 412.
    "positive_data_acceptance": {"expected-statuses": ["2xx", "401", "403", "404", "409", "412", "429"]},
    # A condition is looked at before the body: a wrong one is 412, whatever the body is.
    "negative_data_rejection": {
        "expected-statuses": "400 401 403 404 405 406 409 412 413 415 422 428 429 5xx".split(),
    },
}
BY_THE_SCHEMA_ALONE = {"extra-data-sources": {"responses": False}, "error-feedback": {"enabled": False}}
"""Else it sends what answers have shown, and leaves out what they have refused: it would find less."""

NAMED_AS_WELL = {
    # A schedule may be called "preview": the methods of /v1/schedules/{name} are allowed at that address, too.
    "include-operation-id": ["preview_rule", "import_users", "replay_events", "discard_events"],
    "checks": {"allow_header_conformance": {"enabled": False}, "unsupported_method": {"enabled": False}},
}


def config(base_url: str, secret: str, **phases: bool) -> dict[str, Any]:
    return {
        "base-url": base_url,
        "headers": {"Authorization": f"Bearer {secret}"},
        "seed": 1,
        "generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none", "no-shrink": True},
        "phases": {name: {"enabled": phases.get(name, False)} for name in "examples coverage stateful".split()}
        | {"fuzzing": {"enabled": phases.get("fuzzing", False), **BY_THE_SCHEMA_ALONE}},
        "checks": CHECKS,
        "operations": [NAMED_AS_WELL],
        "continue-on-failure": True,
        "output": {"sanitization": {"enabled": False}},
    }


EVERY_BROKER = "nats:>, redis:*, kafka:*, rabbitmq:*, rabbitmq:*/*, celery:*, celery:*/*"


def excepted(operation: str, path: str) -> bool:
    return any(operation in one.requests and fnmatchcase(path, one.path) for one in SCHEMA_EXCEPTIONS)


PHASES = ("examples", "fuzzing", *(["coverage"] if THOROUGH else []))
NOTHING = ("examples", "system")
"""What takes nothing has no examples."""

TAGS = ("timers", "schedules", "users", "events", "targets", "forecast", "system")


def about(document: dict[str, Any], tag: str) -> dict[str, Any]:
    """The part of a description that is about one subject."""
    paths = {
        path: {method: said for method, said in operations.items() if tag in said["tags"]}
        for path, operations in document["paths"].items()
    }
    return {**document, "paths": {path: operations for path, operations in paths.items() if operations}}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("phase", "tag"), [(phase, tag) for phase in PHASES for tag in TAGS if (phase, tag) != NOTHING]
)
def test_no_request_is_answered_otherwise_than_described(url: str, phase: str, tag: str) -> None:
    with served(url, api_rate=1_000_000, secret_key=SECRET_KEY, broker_allow=EVERY_BROKER) as server:
        known = server.do(seed)
        made = server.do(lambda app: app.keys.create("fuzzer", scope="admin"))
        said = about(server.document, tag)
        found = list(
            failures(said, config(server.url, made.secret, **{phase: True}), known, excepted, bare=phase == "coverage")
        )
    kinds = {one.partition("\n")[0]: one for one in reversed(found)}
    assert not found, "\n\n".join([f"{len(found)} failures", *list(kinds.values())[:MOST_SHOWN]])
