"""Requests for one's own things in which something of another tenant's is named, in one place after the other."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.http.describing import Described, Json
from tests.http.tenants import Tenant

STRANGE = ("tenant", "user_id", "event_id", "id")
"""What no body has, or only some."""

OPEN = ("target", "url", *STRANGE)
"""What is planted in objects of which the description tells nothing."""


class Planted(NamedTuple):
    path: str
    body: Any
    headers: dict[str, str]
    nested: bool = False  # deeper in the body than its own fields


def body_of(operation: Described) -> Any:
    """The documented example."""
    if "requestBody" not in operation.said:
        return None
    return copy.deepcopy(operation.said["requestBody"]["content"]["application/json"]["example"])


def planted(operation: Described, document: Json, mine: Tenant, rival: Tenant, tags: list[str]) -> Iterator[Planted]:
    """*tags* are the ETags of what the rival has, and its Idempotency-Keys are named after the operations."""
    path, example = mine.path(operation.path), body_of(operation)
    names = (rival.name, rival.timer, rival.letter, rival.schedule, rival.user, rival.target)
    for parameter in operation.said["parameters"]:
        if parameter["in"] == "query":
            yield from (Planted(f"{path}?{parameter['name']}={quote(name)}", example, {}) for name in names)
    for headers in _headers(names, operation, tags):
        yield Planted(path, example, headers)
    if isinstance(example, dict):
        content = operation.said["requestBody"]["content"]["application/json"]
        for name in names:
            yield from (Planted(path, {**example, field: name}, {}) for field in STRANGE)
            for said, nested in Planting(document, name).fields(content["schema"]):
                yield Planted(path, {**example, **said}, {}, nested)


def _headers(names: tuple[str, ...], operation: Described, tags: list[str]) -> Iterator[dict[str, str]]:
    for name in names:
        yield {"duly_tenant": name}
        yield {"x_request_id": name}
        yield {"idempotency_key": f"{operation.said['operationId']} {name}"}
        yield {"if_match": f'"{name}"'}
    for tag in tags:
        yield {"if_match": tag}
        yield {"if_match": f"{tag}, *"}


class Planting:
    """A name in each place of what a schema describes, with all else that must be there."""

    def __init__(self, document: Json, name: str) -> None:
        self._schemas, self._name = document["components"]["schemas"], name

    def fields(self, schema: Json) -> Iterator[tuple[dict[str, Any], bool]]:
        """Each field of a body with the name in it, and whether that is further inside."""
        for field, inner in self._read(schema)["properties"].items():
            for value in (self._name, *self.inside(inner)):
                yield {field: value}, value is not self._name

    def inside(self, schema: Json) -> Iterator[Any]:
        said = self._read(schema)
        for one in (*said.get("anyOf", ()), *said.get("oneOf", ())):
            yield from self.inside(one)
        if "properties" in said:
            needed = {field: self._sample(said["properties"][field]) for field in said.get("required", ())}
            for field, inner in said["properties"].items():
                yield from ({**needed, field: value} for value in self.inside(inner))
        elif "items" in said:
            yield from ([value] for value in self.inside(said["items"]))
        elif not {"anyOf", "oneOf", "enum"} & set(said):
            yield self._name
            if "object" in said.get("type", "object"):
                yield {"target": self._name}
                yield dict.fromkeys(OPEN, self._name)

    def _sample(self, schema: Json) -> Any:
        said = self._read(schema)
        return [*said.get("enum", ()), *said.get("examples", ()), self._name][0]

    def _read(self, schema: Json) -> Json:
        read: Json = self._schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        return read
