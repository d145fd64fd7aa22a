"""The description of the API as a page: no scripts, nothing from elsewhere, so that it can be read anywhere."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from duly.api.protocol.problems import MEDIA_TYPE

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --word: #2563eb; }
@media (prefers-color-scheme: dark) { :root { --word: #8ab4ff; } }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; display: grid; grid-template-columns: 17rem minmax(0, 60rem); }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.5rem 1rem; border-right: 1px solid
  var(--line);
  font-size: 14px; }
nav h2 { font-size: 12px; text-transform: uppercase; letter-spacing: .08em; margin: 1.2rem 0 .3rem; opacity: .7; }
nav a { display: block; padding: .1rem 0; color: inherit; text-decoration: none; }
nav a:hover, main a { color: var(--word); }
main { padding: 1.5rem 2.5rem 6rem; }
section { border-top: 1px solid var(--line); padding: 1.5rem 0 .5rem; }
h1 { margin-top: 0; } h3 { margin: 0 0 .3rem; font-size: 1.15rem; }
code, pre { font: 13px/1.5 ui-monospace, monospace; }
pre { background: var(--soft); padding: .8rem 1rem; overflow: auto; border-radius: 6px; margin: .5rem 0 1rem; }
.where { margin: 0 0 .6rem; overflow-wrap: anywhere; }
.method { font-weight: 700; color: var(--word); margin-right: .5rem; }
.scope { font-size: 12px; border: 1px solid var(--line); border-radius: 9px; padding: 0 .5rem; margin-left: .5rem; }
table { border-collapse: collapse; width: 100%; font-size: 14px; margin: .5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .2rem 0; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border: 0; }
  main { padding: 1rem; } }
"""

JSON = "application/json"
PROBLEMS = (
    "Every error is a problem document, `application/problem+json`. `detail` says what happened; `errors` has each "
    "thing that is wrong with the request; the server's log has more under `request_id`."
)

POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def docs_page(document: Mapping[str, Any], base: str) -> str:
    """*base* is where the API is, for the examples."""
    operations = list(_operations(document))
    tags = dict.fromkeys(operation["tags"][0] for _, _, operation in operations)
    index = "".join(
        f"<h2>{escape(tag)}</h2>"
        + "".join(
            f'<a href="#{escape(operation["operationId"])}">{escape(operation["summary"])}</a>'
            for _, _, operation in operations
            if operation["tags"][0] == tag
        )
        for tag in tags
    )
    info = document["info"]
    sections = "".join(_section(base, *one) for one in operations)
    about = "".join(f"<p>{_inline(text)}</p>" for text in info["description"].strip().split("\n\n"))
    problems = next(iter(operations))[2]["responses"]
    example = next(one["content"][MEDIA_TYPE]["example"] for one in problems.values() if MEDIA_TYPE in one["content"])
    schemas = "".join(
        f'<details id="schema-{escape(name)}"><summary>{escape(name)}</summary>{_pre(schema)}</details>'
        for name, schema in document["components"]["schemas"].items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style></head><body>"
        f"<nav><strong>{escape(info['title'])} {escape(info['version'])}</strong>{index}<h2>more</h2>"
        '<a href="#problems">Errors</a><a href="#schemas">Schemas</a>'
        f'<a href="{escape(base)}/openapi.json">openapi.json</a></nav>'
        f"<main><h1>{escape(info['title'])} API</h1>{about}{sections}"
        f'<section id="problems"><h3>Errors</h3><p>{_inline(PROBLEMS)}</p>{_pre(example)}</section>'
        f'<section id="schemas"><h3>Schemas</h3>{schemas}</section></main></body></html>'
    )


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _section(base: str, method: str, path: str, operation: Mapping[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get(JSON)
    told = "".join(f"<p>{_inline(text)}</p>" for text in operation.get("description", "").split("\n\n") if text)
    told_apart = {status: answer for status, answer in operation["responses"].items() if status < "400"}
    answers = "".join(_answer(status, answer) for status, answer in told_apart.items())
    errors = ", ".join(status for status in operation["responses"] if status not in told_apart)
    answers += f'<tr><td>{errors}</td><td>a <a href="#problems">problem document</a></td></tr>'
    curl = _curl(base, method, path, body, keyed="x-scope" in operation)
    takes = "" if body is None else f"<p>Takes {_type(body['schema'])}</p>"
    return (
        f'<section id="{escape(operation["operationId"])}"><h3>{escape(operation["summary"])}</h3>'
        f'<p class="where"><span class="method">{method}</span><code>{escape(path)}</code>'
        f'<span class="scope">{escape(operation.get("x-scope", "open"))}</span></p>{told}'
        f"{_parameters(operation.get('parameters', []))}{takes}<pre>{escape(curl)}</pre>"
        f"<table><tr><th>Status</th><th>Answer</th></tr>{answers}</table></section>"
    )


def _parameters(parameters: list[Mapping[str, Any]]) -> str:
    if not parameters:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td><td>{_type(one['schema'])}</td>"
        f"<td>{_inline(one.get('description') or one['schema'].get('description', ''))}</td></tr>"
        for one in parameters
    )
    return f"<table><tr><th>Parameter</th><th>In</th><th>Is</th><th></th></tr>{rows}</table>"


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    [content] = answer["content"].values()
    what = f"{escape(answer['description'])}: {_type(content['schema'])}"
    shown = f"<details><summary>{what}</summary>{_pre(content.get('example'))}</details>"
    return f"<tr><td>{escape(status)}</td><td>{shown}</td></tr>"


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
    """Backticks mean code."""
    parts = escape(text.replace("\n", " ")).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
