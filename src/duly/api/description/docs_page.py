"""The description of the API as an HTML page: no scripts and no external resources, so that it can be read offline."""

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple

from duly.api.protocol.problems import MEDIA_TYPE

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --link: #1d4ed8; --GET: #1d4ed8; --POST: #15803d;
  --PUT: #9a5b00; --PATCH: #9a5b00; --DELETE: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --link: #8ab4ff; --GET: #8ab4ff; --POST: #6ee7a0; --PUT: #fbbf6b;
  --PATCH: #fbbf6b; --DELETE: #fca5a5; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.5rem 6rem; font: 16px/1.55 system-ui, sans-serif; }
a { color: var(--link); }
h1 { margin: 0 0 1rem; } h2 { margin: 2.5rem 0 .5rem; font-size: 1.3rem; text-transform: capitalize; }
h3 { margin: 0; font-size: 1.1rem; overflow-wrap: anywhere; }
h3 a { color: inherit; text-decoration: none; } h3 a:hover { text-decoration: underline; }
code, pre { font: 13px/1.5 ui-monospace, monospace; } h3 code { font-size: inherit; }
pre { background: var(--soft); padding: .8rem 1rem; overflow: auto; border-radius: 6px; margin: .5rem 0 1rem; }
nav { border: 1px solid var(--line); border-radius: 8px; padding: .5rem 1.2rem 1rem; margin: 1.5rem 0; }
nav h2 { margin: 1rem 0 .2rem; font-size: 1rem; } nav h2 a { color: inherit; text-decoration: none; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li a { display: grid; grid-template-columns: 4.5rem minmax(0, 22rem) minmax(0, 1fr); gap: 0 .6rem;
  align-items: baseline; padding: .15rem 0; color: inherit; text-decoration: none; }
nav li a:hover { background: var(--soft); }
nav code { overflow-wrap: anywhere; } nav li span:last-child { font-size: 14px; }
section { border-top: 1px solid var(--line); padding: 1.2rem 0 .8rem; }
section:target, details:target { outline: 2px solid var(--link); outline-offset: .5rem; border-radius: 2px; }
.method { font: 700 13px/1.5 ui-monospace, monospace; } h3 .method { font-size: inherit; }
.GET { color: var(--GET); } .POST { color: var(--POST); } .PUT { color: var(--PUT); } .PATCH { color: var(--PATCH); }
.DELETE { color: var(--DELETE); }
.scope { font-size: 12px; border: 1px solid var(--line); border-radius: 9px; padding: 0 .5rem; white-space: nowrap; }
table { border-collapse: collapse; width: 100%; font-size: 14px; margin: .5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: anywhere; } td:first-child, td:nth-child(2) { white-space: nowrap; }
summary { cursor: pointer; padding: .2rem 0; }
@media (max-width: 45rem) {
  body { padding: 1rem; } nav { padding: 0 .8rem .8rem; }
  nav li a { grid-template-columns: 4rem minmax(0, 1fr); padding: .35rem 0; } nav li span:last-child { grid-column: 2; }
  th { display: none; } tr { display: block; border-bottom: 1px solid var(--line); padding: .3rem 0; }
  td { display: inline; border: 0; padding: 0 .5rem 0 0; }
}
"""

JSON = "application/json"
PROBLEMS = (
    "Every error is a problem document, `application/problem+json`. `detail` says what happened; `errors` "
    "lists every problem of the request; the server's log has more details under `request_id`."
)

POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class DescribedOperation(NamedTuple):
    """An operation of an OpenAPI document, with its path and method."""

    method: str
    path: str
    told: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The HTML id of the operation's section."""
        return escape(self.told["operationId"])

    @property
    def heading(self) -> str:
        """Method and path, as the table of contents and the section title show them."""
        return f'<span class="method {self.method}">{self.method}</span> <code>{escape(self.path)}</code>'


def docs_page(document: Mapping[str, Any], base: str) -> str:
    """The HTML page of an OpenAPI document. *base* is the URL of the API, for the examples."""
    by_tag = _by_tag(document)
    info = document["info"]
    about = "".join(f"<p>{_inline(text)}</p>" for text in info["description"].strip().split("\n\n"))
    contents = "".join(_contents(tag, operations) for tag, operations in by_tag.items())
    sections = "".join(
        f'<h2 id="tag-{escape(tag)}">{escape(tag)}</h2>' + "".join(_section(base, one) for one in operations)
        for tag, operations in by_tag.items()
    )
    schemas = "".join(
        f'<details open id="schema-{escape(name)}"><summary>{escape(name)}</summary>{_pre(schema)}</details>'
        for name, schema in document["components"]["schemas"].items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1>{about}"
        f'<p><a href="#problems">Errors</a> · <a href="#schemas">Schemas</a> · '
        f'<a href="{escape(base)}/openapi.json">openapi.json</a></p>'
        f'<nav aria-label="Contents">{contents}</nav><main>{sections}'
        f'<h2 id="problems">Errors</h2><p>{_inline(PROBLEMS)}</p>{_pre(_a_problem(by_tag))}'
        f'<h2 id="schemas">Schemas</h2>{schemas}</main></body></html>'
    )


def _by_tag(document: Mapping[str, Any]) -> dict[str, list[DescribedOperation]]:
    found: dict[str, list[DescribedOperation]] = {}
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            found.setdefault(told["tags"][0], []).append(DescribedOperation(method.upper(), path, told))
    return found


def _a_problem(by_tag: Mapping[str, list[DescribedOperation]]) -> Any:
    """An example of a problem document."""
    answers = next(iter(by_tag.values()))[0].told["responses"]
    return next(one["content"][MEDIA_TYPE]["example"] for one in answers.values() if MEDIA_TYPE in one["content"])


def _contents(tag: str, operations: list[DescribedOperation]) -> str:
    lines = "".join(
        f'<li><a href="#{one.id}">{one.heading} <span>{escape(one.told["summary"])}</span></a></li>'
        for one in operations
    )
    return f'<h2><a href="#tag-{escape(tag)}">{escape(tag)}</a></h2><ul>{lines}</ul>'


def _section(base: str, operation: DescribedOperation) -> str:
    told, id = operation.told, operation.id
    body = told.get("requestBody", {}).get("content", {}).get(JSON)
    more = "".join(f"<p>{_inline(text)}</p>" for text in told.get("description", "").split("\n\n") if text)
    good = {status: answer for status, answer in told["responses"].items() if status < "400"}
    answers = "".join(_answer(status, answer) for status, answer in good.items())
    errors = ", ".join(status for status in told["responses"] if status not in good)
    curl = _curl(base, operation.method, operation.path, body, keyed="x-scope" in told)
    takes = "" if body is None else f"<p>Body: {_type(body['schema'])}</p>"
    return (
        f'<section id="{id}"><h3><a href="#{id}">{operation.heading}</a></h3>'
        f'<p>{escape(told["summary"])}. <span class="scope">{_scope(told)}</span></p>{more}'
        f"{_parameters(told.get('parameters', []))}{takes}<pre>{escape(curl)}</pre>{answers}"
        f'<p>Errors: {errors}, each a <a href="#problems">problem document</a></p></section>'
    )


def _scope(told: Mapping[str, Any]) -> str:
    """The scope that the API key needs."""
    return f"scope: {escape(told['x-scope'])}" if "x-scope" in told else "needs no key"


def _parameters(parameters: list[Mapping[str, Any]]) -> str:
    if not parameters:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td><td>{_type(one['schema'])}</td>"
        f"<td>{_inline(one.get('description') or one['schema'].get('description', ''))}</td></tr>"
        for one in parameters
    )
    return f"<table><tr><th>Parameter</th><th>In</th><th>Type</th><th>Description</th></tr>{rows}</table>"


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    [content] = answer["content"].values()
    what = f"<code>{escape(status)}</code> {escape(answer['description'])}: {_type(content['schema'])}"
    return f"<details><summary>{what}</summary>{_pre(content.get('example'))}</details>"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    kind = escape(str(schema.get("format") or schema.get("type", "anything")))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    return kind if low is None or high is None else f"{kind}, {low} to {high:,}"


def _curl(base: str, method: str, path: str, body: Mapping[str, Any] | None, *, keyed: bool) -> str:
    examples = {"{key}": "invoice-7", "{name}": "weekly-report", "{id}": "019a8f2e-6c00-7abc-8def-0123456789ab"}
    for parameter, example in examples.items():
        path = path.replace(parameter, "shop" if "/targets/" in path and parameter == "{name}" else example)
    lines = [f"curl {'' if method == 'GET' else f'-X {method} '}{base}{path}"]
    if keyed:
        lines.append('-H "Authorization: Bearer $DULY_KEY"')
    if body is not None and body.get("example"):
        written = json.dumps(body["example"], ensure_ascii=False).replace("'", "'\\''")
        lines += ['-H "Content-Type: application/json"', f"-d '{written}'"]
    return " \\\n  ".join(lines)


def _pre(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"


def _inline(text: str) -> str:
    """Escaped HTML, with text in backticks as code."""
    parts = escape(text.replace("\n", " ")).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
