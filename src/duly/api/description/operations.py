"""An operation of the API: where it is, what it needs, takes and answers, and who carries it out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from duly.api.protocol.bodies import LARGE
from duly.api.protocol.request import Afterwards, Run
from duly.records.api_key import Scope

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DescribedResponse:
    """What one status means, with an example of it."""

    told: str
    schema: "Schema | type[msgspec.Struct]"  # a struct is described as it is written
    example: Any = None
    tagged: bool = False  # has an ETag
    located: bool = False  # has a Location
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class RequestBody:
    """What a body says."""

    schema: Schema
    example: Any
    most: int = LARGE
    required: bool = True


NOTHING = RequestBody({"type": "object", "properties": {}, "additionalProperties": False}, {}, required=False)
"""An empty object, or no body at all."""


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
    conflicts: bool = False  # can be refused for what state things are in
    guarded: bool = False  # heeds If-Match
    discloses: bool = False  # answers a secret, which is nowhere kept as it is
    waits: Afterwards | None = None  # heeds Prefer: wait, once all is committed
    one_statement: bool = False  # all that it writes, so that it needs no transaction around it

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def writes(self) -> bool:
        return self.needs is not Scope.READ

    @property
    def remembered(self) -> bool:
        """Whether it heeds an Idempotency-Key. Also where the method itself is idempotent, for its answer is not: what
        was deleted is not found again, and what was changed has another tag."""
        return self.writes and not self.discloses


@dataclass(frozen=True, slots=True)
class OpenOperation:
    """What anybody may ask, without a key."""

    path: str
    name: str
    told: str
    answers: Mapping[int, DescribedResponse]
    refuses: tuple[int, ...] = ()


class Operations:
    """Those of one subject, in the order in which they are described."""

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
        """Declare the function below; its docstring is the description. Reading needs the scope for that, and all else
        the one for writing, unless it is said."""
        scope = needs or (Scope.READ if method == "GET" else Scope.WRITE)

        def register(run: Run) -> Run:
            self.all.append(Operation(method, path, self.tag, run, answers, scope, **more))
            return run

        return register
