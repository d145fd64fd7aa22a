"""The whole API against its own description, by somebody who believes none of it."""

import os
from typing import Any

import pytest

from tests.http.fuzzing import failures, seed
from tests.http.serving import served
from tests.http.tenants import SECRET_KEY

THOROUGH = os.environ.get("DULY_EXHAUSTIVE") == "1"
"""Every boundary of every schema, on both stores: minutes instead of seconds."""

EXAMPLES = 100 if THOROUGH else 10
MOST_SHOWN = 20

CHECKS = {
    # No schema can say whether a zone or a schedule exists, whether an instant lies ahead, or that a character can be
    # printed: that is 422. An If-Match that is none, or of another state, is 412. All else that is good is taken.
    "positive_data_acceptance": {"expected-statuses": ["2xx", "401", "403", "404", "409", "412", "422", "429"]},
    # A condition is looked at before the body: a wrong one is 412, whatever the body is.
    "negative_data_rejection": {
        "expected-statuses": "400 401 403 404 405 406 409 412 413 415 422 428 429 5xx".split(),
    },
}
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
        "phases": {name: {"enabled": phases.get(name, False)} for name in "examples coverage fuzzing stateful".split()},
        "checks": CHECKS,
        "operations": [NAMED_AS_WELL],
        "continue-on-failure": True,
        "output": {"sanitization": {"enabled": False}},
    }


PHASES = ("examples", "fuzzing", *(["coverage"] if THOROUGH else []))
NOTHING = ("examples", "system")
"""What takes nothing has no examples."""

TAGS = ("timers", "schedules", "users", "events", "targets", "system")


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
    with served(url, api_rate=1_000_000, secret_key=SECRET_KEY) as server:
        known = server.do(seed)
        made = server.do(lambda app: app.keys.create("fuzzer", scope="admin"))
        said = about(server.document, tag)
        found = list(failures(said, config(server.url, made.secret, **{phase: True}), known))
    kinds = {one.partition("\n")[0]: one for one in reversed(found)}
    assert not found, "\n\n".join([f"{len(found)} failures", *list(kinds.values())[:MOST_SHOWN]])
