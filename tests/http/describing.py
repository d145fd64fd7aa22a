"""What the API says of itself, and whether an answer is as it says."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx
import jsonschema_rs
import msgspec

Json = dict[str, Any]


class Described(NamedTuple):
    """An operation in the words of OpenAPI."""

    method: str
    path: str
    said: Json

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Description:
    def __init__(self, document: Json) -> None:
        self.document = document
        self._validators: dict[tuple[str, str, str], jsonschema_rs.Draft202012Validator] = {}

    @cached_property
    def operations(self) -> list[Described]:
        found = [
            Described(method.upper(), path, said)
            for path, operations in self.document["paths"].items()
            for method, said in operations.items()
        ]
        return sorted(found, key=lambda one: "{" in one.path)

    def operation(self, method: str, raw_path: str) -> Described | None:
        """The one that is asked; None where nothing is described."""
        for one in self.operations:
            if one.method == method and re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(one.path)), raw_path):
                return one
        return None

    def check(self, answer: httpx.Response) -> None:
        """The status is one that the operation may answer, and the body is as that one has it. What was taken is what
        the operation says that it takes."""
        raw = answer.request.url.raw_path.partition(b"?")[0].decode()
        operation = self.operation(answer.request.method, raw) or self.operation(answer.request.method, unquote(raw))
        if operation is None:
            assert answer.is_error or not raw.startswith("/v1/"), f"{raw} is not described"
            return
        said = operation.said["responses"].get(str(answer.status_code))
        assert said, f"{operation} does not say that it may answer {answer.status_code}: {answer.text[:500]}"
        media_type = answer.headers["content-type"].partition(";")[0]
        assert media_type in said["content"], f"{operation} does not say that it answers {media_type}"
        for name in said.get("headers", {}):
            required = said["headers"][name].get("required", False)
            assert name in answer.headers or not required, f"{operation} answers {answer.status_code} without {name}"
        body = answer.json() if media_type.endswith("json") else answer.text
        found = list(self.problems(operation, answer.status_code, media_type, body))
        assert not found, f"{operation} answers otherwise than it says: {'; '.join(found[:5])}"
        if answer.is_success:
            found = list(self.unforeseen(operation, answer.request))
            assert not found, f"{operation} takes what it does not say: {'; '.join(found[:5])}"

    def unforeseen(self, operation: Described, request: httpx.Request) -> Iterator[str]:
        """What a request has that the description does not allow."""
        if request.content.strip() and "requestBody" in operation.said:
            said = operation.said["requestBody"]["content"]["application/json"]["schema"]
            yield from self._errors((str(operation), "body", ""), said, msgspec.json.decode(request.content))
        for parameter in operation.said["parameters"]:
            for given in (request.url.params if parameter["in"] == "query" else request.headers).get_list(
                parameter["name"]
            ):
                said = parameter["schema"]
                value = int(given) if said.get("type") == "integer" else given
                yield from self._errors((str(operation), parameter["in"], parameter["name"]), said, value)

    def problems(self, operation: Described, status: int, media_type: str, body: Any) -> Iterator[str]:
        """What an answer has otherwise than its schema."""
        said = operation.said["responses"][str(status)]["content"][media_type]["schema"]
        yield from self._errors((str(operation), str(status), media_type), said, body)

    def _errors(self, named: tuple[str, str, str], said: Json, value: Any) -> Iterator[str]:
        if named not in self._validators:
            self._validators[named] = self.validator(said)
        for error in self._validators[named].iter_errors(value):
            yield f"{'/'.join(map(str, error.instance_path))}: {error.message}"

    def validator(self, schema: Json) -> jsonschema_rs.Draft202012Validator:
        """Of a schema that may refer to the document's others."""
        whole = {**schema, "components": self.document["components"]}
        return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
