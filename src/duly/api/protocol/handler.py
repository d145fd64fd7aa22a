"""The path of a request: authenticate, read, run, answer. Errors on the way become answers as well."""

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from duly.api.access.auth import Authenticator
from duly.api.access.preparation import Preparation
from duly.api.access.tenancy import tenancy
from duly.api.access.tenant_budget import TenantBudget, long_answer
from duly.api.description.operations import Operation
from duly.api.protocol.all_problems import gathered, together
from duly.api.protocol.bodies import ORDINARY_BODY_BYTES, read_body, read_json
from duly.api.protocol.dry_run import is_dry_run
from duly.api.protocol.etags import if_match_problems, unheeded
from duly.api.protocol.listing import InPieces, Listed
from duly.api.protocol.problems import (
    BUG,
    MEDIA_TYPE,
    RETRY_AFTER,
    RefusedRequest,
    Uncertain,
    problem,
    problem_of,
    without_message,
)
from duly.api.protocol.query_string import read_query
from duly.api.protocol.request import IDEMPOTENCY_KEY, SLASH, ApiRequest, ApiResponse, Caller
from duly.decide.checks import name_problems
from duly.duly import Duly
from duly.engine.fairness.keyed_semaphore import KeyedSemaphore
from duly.errors import (
    ApiNotReady,
    DulyError,
    Invalid,
    Misuse,
    NotWritable,
    Problem,
    RightsMissing,
    StoreError,
    StoreUnavailable,
    Unconfirmed,
    Unsealed,
)
from duly.observers.logs import Line

log = logging.getLogger("duly.http")

REPLAYED = {"Idempotency-Replayed": "true"}
SWEEP_INTERVAL_S = 10.0
"""Seconds between two deletions of expired idempotency keys."""

MOST_SWEPT = 20_000
"""Expired idempotency keys that one sweep deletes: more than a server can add in SWEEP_INTERVAL_S."""

_encode = msgspec.json.Encoder().encode


class RequestHandler:
    def __init__(self, duly: Duly, admission: Authenticator) -> None:
        self.duly, self._admission = duly, admission
        self.not_writable = False  # a write has failed, and none has succeeded since
        self._preparation = Preparation(duly)
        self._swept = 0.0
        self._turns = KeyedSemaphore(1)
        self._budget = TenantBudget()

    async def respond(self, operation: Operation, request: Request) -> Response:
        return self.noting_use(request, await self._answer(operation, request))

    async def respond_to_all_tenants(self, request: Request, answer: Callable[[], Awaitable[Response]]) -> Response:
        """Answers a request for what is of all tenants together, such as metrics."""
        try:
            self.require_open()
            await self._admission.admit_to_all_tenants(request)
            response = await answer()
        except Exception as error:
            response = write(self._problem(error, request), request)
        return self.noting_use(request, response)

    def noting_use(self, request: Request, response: Response) -> Response:
        """The response, after which the use of the caller's key is recorded."""
        if (key := getattr(request.state, "used", None)) is not None and not self._admission.was_noted(key):
            response.background = BackgroundTask(self._admission.note_use, key)
        return response

    async def _answer(self, operation: Operation, request: Request) -> Response:
        try:
            self.require_open()
            _check_address(request)
            caller = await self._admission.admit(request, operation.needs)
            request.state.caller = caller
            await self._preparation.require()  # after the caller is known: its error tells of the database
            body = await read_body(request, operation.takes.most if operation.takes else ORDINARY_BODY_BYTES)
            asked = await _read(operation, request, body)
            async with self._budget.turn(caller.tenant) as spent:
                answer = await self._carry_out(operation, request, caller, asked)
                if isinstance(answer.body, Listed):
                    page = await write_page(answer.body, answer)
                    spent.seconds += long_answer(page.size, len(answer.body.items))
                    return page
                response = write(answer, request)
                spent.seconds += long_answer(len(response.body))
                return response
        except Exception as error:
            return write(self._problem(error, request), request)

    def _problem(self, error: Exception, request: Request) -> ApiResponse:
        if isinstance(error, ApiNotReady):  # which was logged when it was found
            return problem_of(error)
        if isinstance(error, StoreError):
            self.not_writable |= isinstance(error, NotWritable)
            log.error(Line("request.failed", {"request": request_id(request), "error": str(error)}))
            return problem_of(error)
        if isinstance(error, Misuse):
            return self._misused(error, request)
        if isinstance(error, DulyError):
            return problem_of(error)
        if isinstance(error, HTTPException):  # raised by the application's own authenticate
            return problem(error.status_code, str(error.detail), headers=error.headers)
        log.error(Line("request.failed", {"request": request_id(request), "error": without_message(error)}))
        return problem(500, BUG)

    async def _carry_out(
        self, operation: Operation, request: Request, caller: Caller, asked: "ReadRequest"
    ) -> ApiResponse:
        key, done = asked.key, False
        try:
            # Storing the answer for an idempotency key takes a second statement; and known problems roll everything
            # back.
            one_statement = operation.one_statement and key is None and not asked.problems
            writes = operation.writes and not is_dry_run(asked.query)  # which begins, and undoes, its own transaction
            async with (
                self._turn(caller, key),
                tenancy(self.duly, caller, writes=writes, one_statement=one_statement) as own,
            ):
                ask = ApiRequest(request, caller, own, asked.said, asked.query)
                with together(asked.problems, {}):
                    answer = await (operation.run(ask) if key is None else _once(key, operation, ask, asked.body))
                done = writes
        except StoreUnavailable as error:
            if isinstance(error, Unconfirmed) or (done and not isinstance(error, NotWritable)):  # in the commit
                log.error(Line("request.uncertain", {"request": request_id(request), "error": str(error)}))
                raise Uncertain from error
            raise
        except RightsMissing as error:
            await self._preparation.doubt(error)
            raise
        if key is not None:
            await self._sweep()
        afterwards = operation.waits or operation.sends
        return answer if afterwards is None else await afterwards(ask, answer)

    def _turn(self, caller: Caller, key: str | None) -> AbstractAsyncContextManager[None]:
        """Queues requests with the same idempotency key here, where waiting takes no database connection."""
        return nullcontext() if key is None else self._turns.one((caller.tenant, key))

    def _misused(self, error: Misuse, request: Request) -> ApiResponse:
        """The answer to a Misuse. Not the caller's mistake unless secrets cannot be encrypted: the Duly was closed
        meanwhile, or there is a bug."""
        if isinstance(error, Unsealed):
            return problem_of(error)
        log.error(Line("request.failed", {"request": request_id(request), "error": str(error)}))
        return problem_of(_not_open()) if self.duly.loop is None else problem(500, BUG)

    async def _sweep(self) -> None:
        """Deletes expired idempotency keys now and then, after a request that has added one. MOST_SWEPT in
        SWEEP_INTERVAL_S is more than one server can add."""
        if time.monotonic() - self._swept < SWEEP_INTERVAL_S:
            return
        self._swept = time.monotonic()
        try:
            await self.duly.requests.forget(MOST_SWEPT)
        except StoreError as error:
            log.warning(Line("requests.not_forgotten", {"error": str(error)}))

    async def require_ready(self) -> None:
        """Raises an error unless the Duly is open, and the database ready for requests."""
        self.require_open()
        await self._preparation.require()

    def require_open(self) -> None:
        """Raises an error unless the Duly is open."""
        if self.duly.loop is None:
            raise _not_open()


def _not_open() -> RefusedRequest:
    told = "the Duly object of this API is not open: open it when the application starts"
    return RefusedRequest(503, told, headers={"Retry-After": RETRY_AFTER})


class ReadRequest(NamedTuple):
    """The content of a request, and the problems found outside its body."""

    query: dict[str, str]
    key: str | None  # the Idempotency-Key
    body: bytes
    said: Any
    problems: list[Problem]


async def _read(operation: Operation, request: Request, body: bytes) -> ReadRequest:
    """Reads a request. With problems outside the body, the body is read all the same, to report its problems as
    well."""
    query, problems = read_query(request.query_params.multi_items(), operation.query)
    problems += if_match_problems(request) if operation.guarded else ()
    problems += unheeded(request, operation.guarded) if operation.writes else ()
    key = None
    with gathered(problems):
        key = _key(request) if operation.remembered else None
        key = None if is_dry_run(query) else key  # there is nothing that must not happen twice
    if operation.takes is None:
        return ReadRequest(query, key, body, _refuse(body), problems)
    try:
        said = await read_json(request, body, operation.takes.required)
    except Invalid as error:
        raise Invalid([*problems, *error.problems]) from None
    return ReadRequest(query, key, body, said, problems)


def write(answer: ApiResponse, request: Request) -> Response:
    headers = {"Content-Type": "application/json", **answer.headers}
    body = answer.body
    if headers["Content-Type"] == MEDIA_TYPE:
        body = {**body, "request_id": request_id(request)}
    return Response(_encode(body), answer.status, headers)


async def write_page(listed: Listed, answer: ApiResponse) -> InPieces:
    return InPieces(await listed.written(), answer.status, {"Content-Type": "application/json", **answer.headers})


async def _once(key: str, operation: Operation, ask: ApiRequest, body: bytes) -> ApiResponse:
    """Runs an operation once per idempotency key: the same key with the same body returns the stored answer, and
    nothing runs again. An answer that refuses the request is not stored: the caller may fix the cause and retry."""
    asked = hashlib.sha256(f"{operation.method} {ask.address}\n".encode() + body).hexdigest()
    known = await ask.own.requests.recall(ask.tenant, key, asked)
    if known is not None:
        return ApiResponse(msgspec.Raw(known.body), known.status, {**msgspec.json.decode(known.headers), **REPLAYED})
    answer = await operation.run(ask)
    headers = _encode(answer.headers).decode()
    await ask.own.requests.remember(ask.tenant, key, answer.status, headers, _encode(answer.body))
    return answer


def _check_address(request: Request) -> None:
    """Refuses a path that is not UTF-8: the server has replaced every unreadable byte by the same character, so
    different names would become equal."""
    if not {"\ufffd", SLASH}.isdisjoint(request.scope["path"]):
        try:
            readable = SLASH not in unquote_to_bytes(request.scope.get("raw_path") or b"").decode()
        except UnicodeDecodeError:
            readable = False
        if not readable:
            raise RefusedRequest(400, "the address is not valid UTF-8: percent-encode the names in it")


def _key(request: Request) -> str | None:
    written = request.headers.get(IDEMPOTENCY_KEY)
    if written is not None and (problems := name_problems("name", written)):
        raise Invalid([problem._replace(path="Idempotency-Key") for problem in problems])
    return written


def _refuse(body: bytes) -> Any:
    if body.strip():
        raise RefusedRequest(400, "this request takes no body", [Problem("body", "must be empty")])
    return None


def request_id(request: Request) -> str:
    return str(request.state.request_id)
