"""The OpenAPI document: complete, and true to its own examples. That answers are true to it, every caller checks."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from duly import Duly
from duly.api.app import OPERATIONS, create_api
from duly.api.description.docs_page import docs_page
from duly.api.description.examples import PROBLEMS
from tests.http.describing import Described, Description

DESCRIPTION = Description(create_api(Duly("sqlite://")).openapi())
OPENED = [one for one in DESCRIPTION.operations if not one.path.startswith("/v1/")]
KEYED = [one for one in DESCRIPTION.operations if one.path.startswith("/v1/")]
EVERY = pytest.mark.parametrize("operation", DESCRIPTION.operations, ids=str)
EVERY_KEYED = pytest.mark.parametrize("operation", KEYED, ids=str)


def contents(operation: Described) -> Iterator[tuple[str, Any]]:
    """Where something is written in JSON, and what is said of it."""
    if "requestBody" in operation.said:
        for media_type, content in operation.said["requestBody"]["content"].items():
            yield f"body {media_type}", content
    for status, said in operation.said["responses"].items():
        for media_type, content in said["content"].items():
            yield f"{status} {media_type}", content


def test_every_operation_is_in_the_openapi_description() -> None:
    described = {(one.method, one.path) for one in KEYED}
    assert described == {(one.method, one.path) for one in OPERATIONS}
    ids = [one.said["operationId"] for one in DESCRIPTION.operations]
    assert len(ids) == len(set(ids))


def test_operations_that_need_no_key_are_described() -> None:
    assert [one.path for one in OPENED] == ["/healthz", "/readyz", "/metrics"]
    answers = {one.path: set(one.said["responses"]) for one in OPENED}
    assert answers["/healthz"] == {"200", "400", "408", "431"}
    assert answers["/metrics"] == {"200", "400", "401", "403", "408", "429", "431", "503"}
    assert answers["/readyz"] == {"200", "400", "408", "431", "503"}


@EVERY
def test_every_operation_has_a_summary_tags_and_the_scope_it_needs(operation: Described) -> None:
    said = operation.said
    assert said["summary"]
    assert said["tags"]
    keyed = operation in KEYED or operation.path == "/metrics"
    assert bool(said["security"]) == keyed
    assert said.get("x-scope") in (("read", "write", "admin") if keyed else (None,))
    for parameter in said["parameters"]:
        assert parameter["in"] != "header" or parameter["description"]


@EVERY_KEYED
def test_an_operation_takes_a_body_exactly_where_it_says_so(operation: Described) -> None:
    [declared] = [one for one in OPERATIONS if (one.method, one.path) == (operation.method, operation.path)]
    assert ("requestBody" in operation.said) == (declared.takes is not None)
    if operation.method in ("GET", "DELETE"):
        assert declared.takes is None


@EVERY
def test_every_answer_is_described_with_an_example(operation: Described) -> None:
    answers = operation.said["responses"]
    assert {"400", "408", "431"} <= set(answers)
    assert operation in OPENED or {"401", "403", "422", "429", "503"} <= set(answers)
    assert all(int(status) in PROBLEMS for status in answers if status >= "400")
    for where, content in contents(operation):
        assert content.get("schema"), where
        assert content.get("example") is not None, where


@EVERY_KEYED
def test_the_headers_of_every_answer_are_described(operation: Described) -> None:
    [declared] = [one for one in OPERATIONS if (one.method, one.path) == (operation.method, operation.path)]
    for status, said in operation.said["responses"].items():
        headers, good = set(said["headers"]), status < "400"
        assert "X-Request-Id" in headers
        assert ("WWW-Authenticate" in headers) == (status == "401")
        assert ("Retry-After" in headers) == (status in ("429", "503"))
        assert ("Idempotency-Replayed" in headers) == (good and declared.remembered)
        assert ("Preference-Applied" in headers) == (good and declared.waits is not None)
        assert ("Link" in headers) == (good and "cursor" in declared.query)
        assert ("ETag" in headers) == (good and declared.answers[int(status)].tagged)


@EVERY
def test_every_example_is_as_its_schema_says(operation: Described) -> None:
    for where, content in contents(operation):
        found = [error.message for error in DESCRIPTION.validator(content["schema"]).iter_errors(content["example"])]
        assert found == [], where


def test_the_schemas_are_schemas_and_all_are_used() -> None:
    written = str(DESCRIPTION.document)
    for name, schema in DESCRIPTION.document["components"]["schemas"].items():
        jsonschema_rs.meta.validate({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})
        assert f"'#/components/schemas/{name}'" in written, f"{name} is used nowhere"


STANDARD = {"date-time", "date", "uuid"}
"""Formats of JSON Schema itself."""


def formatted(said: Any) -> Iterator[dict[str, Any]]:
    """All schemas that have a format, wherever they are."""
    if isinstance(said, dict):
        if isinstance(said.get("format"), str) and said.get("type") == "string":
            yield said
        for inner in said.values():
            yield from formatted(inner)
    elif isinstance(said, list):
        for inner in said:
            yield from formatted(inner)


def test_a_format_of_our_own_is_told_in_words_and_on_the_page() -> None:
    found = [schema for schema in formatted(DESCRIPTION.document) if schema["format"] not in STANDARD]
    page = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text()
    table = page.partition("| format |")[2].partition("\n\n")[0]
    assert {schema["format"] for schema in found} == set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE))
    for schema in found:
        assert schema["description"], schema
        assert DESCRIPTION.validator(schema).is_valid(schema.get("examples", ["cursor"])[0]), schema


class Anchors(HTMLParser):
    """What a page is made of, as far as its links go: ids, links with their text, and headings by their section."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.contents: dict[str, str] = {}
        self.headings: dict[str, str] = {}
        self.links: list[str] = []
        self._within: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        said = dict(attributes)
        if "id" in said:
            self.ids.append(said["id"] or "")
        if "href" in said:
            self.links.append(said["href"] or "")
        if tag not in ("meta", "link", "br"):
            self._within.append((tag, said.get("href") or said.get("id") or ""))

    def handle_endtag(self, tag: str) -> None:
        while self._within.pop()[0] != tag:
            pass

    def handle_data(self, text: str) -> None:
        within = dict(self._within)
        if {"nav", "li", "a"} <= set(within):
            self.contents[within["a"]] = self.contents.get(within["a"], "") + text
        elif {"section", "h3"} <= set(within):
            self.headings[within["section"]] = self.headings.get(within["section"], "") + text


PAGE = docs_page(DESCRIPTION.document, "http://localhost")
ANCHORS = Anchors(PAGE)


@EVERY
def test_the_contents_of_the_page_lead_to_every_operation(operation: Described) -> None:
    id, where = operation.said["operationId"], f"{operation.method} {operation.path}"
    assert ANCHORS.contents[f"#{id}"] == f"{where} {operation.said['summary']}"
    assert ANCHORS.headings[id] == where


def test_every_link_of_the_page_leads_somewhere_on_it_or_to_the_document() -> None:
    assert len(ANCHORS.ids) == len(set(ANCHORS.ids))
    assert len(ANCHORS.contents) == len(DESCRIPTION.operations)
    assert set(ANCHORS.links) - {f"#{id}" for id in ANCHORS.ids} == {"http://localhost/openapi.json"}


def test_the_page_of_the_api_loads_nothing_and_runs_nothing() -> None:
    assert not re.search(r"<(script|img|link|iframe|object)\b|\bsrc=|@import|url\(|\son\w+=", PAGE)
