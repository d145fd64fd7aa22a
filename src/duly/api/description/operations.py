"""An operation of the API: its method and path, its scope, its body and answers, and the function that runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from duly.api.protocol.bodies import ORDINARY_BODY_BYTES
from duly.api.protocol.request import Afterwards, Run
from duly.records.api_key import Scope

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DescribedResponse:
    """The meaning of one status, with an example."""

    told: str
    schema: "Schema | type[msgspec.Struct]"  # a struct's schema is derived from its fields
    example: Any = None
    tagged: bool = False  # has an ETag header
    located: bool = False  # has a Location header
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The schema of a request's body, with an example and a size limit."""

    schema: Schema
    example: Any
    most: int = ORDINARY_BODY_BYTES
    required: bool = True


NOTHING = RequestBody({"type": "object", "properties": {}, "additionalProperties": False}, {}, required=False)
"""The body of an operation without fields: an empty object, or no body at all."""


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    tag: str
    run: Run
    answers: Mapping[int, DescribedResponse]
    needs: Scope
    takes: RequestBody | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)
    must_have: tuple[str, ...] = ()  # parameters of the query without which the request is refused
    conflicts: bool = False  # may be refused because of the current state (409)
    guarded: bool = False  # supports If-Match
    discloses: bool = False  # the answer has a secret, which is not stored in plain text anywhere
    waits: Afterwards | None = None  # supports Prefer: wait, after the commit
    sends: Afterwards | None = None  # carries the request out after the commit, without a transaction meanwhile
    one_statement: bool = False  # writes with a single statement, so that it needs no transaction around it

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def writes(self) -> bool:
        return self.needs is not Scope.READ

    @property
    def remembered(self) -> bool:
        """Whether the operation supports an Idempotency-Key. Idempotent methods do as well, because their answers
        differ: a second DELETE finds nothing, and a changed record has another ETag."""
        return self.writes and not self.discloses and self.sends is None


@dataclass(frozen=True, slots=True)
class OpenOperation:
    """An operation outside ``/v1``, which machines call. It needs no API key, unless it is about all tenants."""

    path: str
    name: str
    told: str
    answers: Mapping[int, DescribedResponse]
    refuses: tuple[int, ...] = ()
    of_all_tenants: bool = False  # needs a key for all tenants, as soon as there is any key


class Operations:
    """The operations of one subject, in the order of the description."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.all: list[Operation] = []

    def add(
        self,
        method: str,
        path: str,
        answers: Mapping[int, DescribedResponse],
        *,
        needs: Scope | None = None,
        **more: Any,
    ) -> Callable[[Run], Run]:
        """Registers the decorated function as an operation; its docstring is the description. Unless *needs* is given,
        GET needs the scope for reading and other methods the one for writing."""
        scope = needs or (Scope.READ if method == "GET" else Scope.WRITE)

        def register(run: Run) -> Run:
            self.all.append(Operation(method, path, self.tag, run, answers, scope, **more))
            return run

        return register
