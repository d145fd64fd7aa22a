"""Operations as OpenAPI: every answer and every error, with an example of each."""

import inspect
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from duly import __version__
from duly.api.description.examples import PROBLEMS
from duly.api.description.operations import DescribedResponse, OpenOperation, Operation
from duly.api.description.schema_words import ETAGS, NAME, Schema, name, ref, uuid
from duly.api.description.schemas import SCHEMAS
from duly.api.description.target_schemas import stored
from duly.api.protocol.problems import MEDIA_TYPE
from duly.decide.checks import LONGEST
from duly.records.api_key import Scope
from duly.records.wire.answers import ProblemDocument
from duly.records.wire.forms import schemas as struct_schemas

KEY = "API key"
SECURITY: Mapping[str, Any] = {
    KEY: {
        "type": "http",
        "scheme": "bearer",
        "description": "Created by `duly keys create`. On loopback, no key is needed until the first one is created.",
    }
}

REQUEST_ID = "Id of this request in the server's log"

ABOUT = """\
Durable timers, schedules and users' calendar events: on time, once, even after a crash.

Instants in answers are UTC and end in Z; instants in requests may have any offset. Errors are problem documents
(RFC 9457) that list all problems of a request at once. The API key determines the tenant.
"""

REFUSED_BEFORE_ROUTING = (400, 408, 431)
"""Statuses for requests that are malformed, arrive too slowly or have too large a head: they are refused before the
operation is known."""

_PARAMETER = re.compile(r"{(\w+)}")
_PATH_SCHEMAS: Mapping[str, Schema] = {"key": name("key"), "name": name("name"), "id": uuid, "type": name("type")}
_TARGETS = "/v1/targets/"


def described_api(operations: Sequence[Operation], open_operations: Sequence[OpenOperation]) -> dict[str, Any]:
    """The OpenAPI document of the whole API."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = described(operation)
    paths |= {one.path: described_open(one) for one in open_operations}
    described_answers = [*(one.answers for one in operations), *(one.answers for one in open_operations)]
    answers = [answer.schema for by_status in described_answers for answer in by_status.values()]
    structs = {ProblemDocument, *(schema for schema in answers if isinstance(schema, type))}
    schemas = {name: dict(schema) for name, schema in SCHEMAS.items()}
    schemas |= struct_schemas(sorted(structs, key=lambda one: one.__name__), ref("{name}")["$ref"])
    return {
        "openapi": "3.1.0",
        "info": {"title": "Duly", "description": ABOUT, "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": dict(SECURITY)},
    }


def described(operation: Operation) -> dict[str, Any]:
    """The OpenAPI description of an operation; its docstring supplies the summary and the description."""
    first, _, more = inspect.cleandoc(operation.run.__doc__ or "").partition("\n\n")
    summary, _, rest = first.partition(". ")
    description = "\n\n".join(part for part in (rest, more) if part)
    return {
        "tags": [operation.tag],
        "summary": summary.rstrip("."),
        **({"description": description} if description else {}),
        "operationId": operation.name,
        "parameters": _parameters(operation),
        **({} if operation.takes is None else {"requestBody": _body(operation)}),
        "responses": answers(operation),
        "security": [{KEY: []}],
        "x-scope": operation.needs.value,
    }


def described_open(one: OpenOperation) -> dict[str, Any]:
    """The OpenAPI path item of an operation outside ``/v1``."""
    good = {str(status): _content(answers, {}) for status, answers in one.answers.items()}
    unknown = (401, 403, 429, 503) if one.of_all_tenants else ()
    refused = {str(status): _problem(status) for status in sorted({*REFUSED_BEFORE_ROUTING, *one.refuses, *unknown})}
    summary, _, description = one.told.partition(". ")
    said = {"summary": summary.rstrip("."), "description": description, "operationId": one.name, "tags": ["system"]}
    security: list[dict[str, Any]] = [{KEY: []}] if one.of_all_tenants else []
    scope = {"x-scope": Scope.READ.value} if one.of_all_tenants else {}
    return {"get": {**said, "parameters": [], "security": security, **scope, "responses": good | refused}}


def answers(operation: Operation) -> dict[str, Any]:
    """The possible answers of an operation, by status."""
    good = {str(status): _answer(operation, answers) for status, answers in operation.answers.items()}
    return good | {str(status): _problem(status) for status in _refusals(operation)}


def _answer(operation: Operation, answers: DescribedResponse) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if answers.tagged:
        headers["ETag"] = _answered("Version, for the header If-Match")
    if answers.located:
        headers["Location"] = _answered("Address of the created object")
    if "cursor" in operation.query:
        headers["Link"] = _answered("Address of the next page, if there is one")
    if operation.remembered:
        headers["Idempotency-Replayed"] = _answered(
            "true if this is the stored answer to an earlier request with the same Idempotency-Key"
        )
    if operation.waits is not None:
        headers["Preference-Applied"] = _answered("The part of Prefer that was applied")
    return _content(answers, headers)


def _content(answers: DescribedResponse, headers: Mapping[str, Any]) -> dict[str, Any]:
    schema = ref(answers.schema.__name__) if isinstance(answers.schema, type) else answers.schema
    content = {"schema": dict(schema), "example": answers.example}
    every = {"X-Request-Id": _answered(REQUEST_ID)}
    return {"description": answers.told, "headers": {**every, **headers}, "content": {answers.media_type: content}}


def _answered(told: str) -> dict[str, Any]:
    return {"schema": {"type": "string"}, "description": told}


def _refusals(operation: Operation) -> list[int]:
    refusals = {*REFUSED_BEFORE_ROUTING, 401, 403, 413, 422, 429, 503}
    if "{" in operation.path:
        refusals.add(404)
    if operation.takes is not None:
        refusals.add(415)
    if operation.conflicts or operation.remembered:
        refusals.add(409)
    if operation.guarded:
        refusals.add(412)
    return sorted(refusals)


def _problem(status: int) -> dict[str, Any]:
    wrong = [{"path": "due_at", "message": "is missing: give due_at or after"}] if status == 422 else []
    title = HTTPStatus(status).phrase
    example = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": PROBLEMS[status],
        "errors": wrong,
        "request_id": "019a8f2e6c007abc",
    }
    headers = {"X-Request-Id": _answered(REQUEST_ID)}
    if status == 401:
        headers["WWW-Authenticate"] = _answered("How to authenticate")
    if status in (429, 503):
        headers["Retry-After"] = _answered("Seconds")
    content = {MEDIA_TYPE: {"schema": ref("ProblemDocument"), "example": example}}
    return {"description": title, "headers": headers, "content": content}


def _body(operation: Operation) -> dict[str, Any]:
    takes = operation.takes
    assert takes is not None
    content = {"schema": dict(takes.schema), "example": takes.example}
    return {"required": takes.required, "content": {"application/json": content}}


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": _in_path(operation.path, name)}
        for name in _PARAMETER.findall(operation.path)
    ]
    for asked, schema in operation.query.items():
        required = asked in operation.must_have
        parameters.append({"name": asked, "in": "query", "required": required, "schema": dict(schema)})
    if operation.remembered:
        told = (
            "Idempotency key: a repeated request with the same key and body gets the same answer, and "
            "nothing happens twice. Kept for a day."
        )
        parameters.append(_header("Idempotency-Key", told, maxLength=LONGEST["name"], minLength=1, pattern=NAME))
    if operation.guarded:
        parameters.append(
            _header("If-Match", "Expected ETag, or *; the request is refused if the ETag has changed", pattern=ETAGS)
        )
    if operation.waits is not None:
        parameters.append(_header("Prefer", "wait=10: answer when the event has ended, or after ten seconds"))
    parameters.append(_header("Duly-Tenant", "Tenant to act in; only for keys with all tenants", pattern=NAME))
    return parameters


def _in_path(path: str, parameter: str) -> dict[str, Any]:
    return dict(stored if path.startswith(_TARGETS) else _PATH_SCHEMAS[parameter])


def _header(name: str, told: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "string", **more}
    return {"name": name, "in": "header", "required": False, "description": told, "schema": schema}
