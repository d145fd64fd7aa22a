"""The fields of a form for a target: a handler, a webhook, an HTTP request, a stored target, or any other as JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec

from duly.dashboard.forms.json_text import pretty, read_json_text
from duly.decide.targets.commands import is_command
from duly.decide.targets.targets import HTTP, WEBHOOK, named
from duly.errors import Invalid, Problem

Values = Mapping[str, str]

TARGET_KINDS = ("handler", "webhook", "http", "stored", "other")

NO_COMMANDS = "commands are never put here: make such a schedule in Python, or with duly schedules put --command"


def target_values(target: dict[str, Any] | None) -> dict[str, str]:
    """The fields of a target."""
    if target is None:
        return {"target_kind": "handler"}
    if (stored := named(target)) is not None and set(target[stored[0]]) == {"target"}:
        return {"target_kind": "stored", "stored": stored[1], "stored_channel": stored[0]}
    spec = target.get(WEBHOOK)
    if isinstance(spec, str):
        return {"target_kind": "webhook", "webhook_url": spec}
    if isinstance(spec, dict) and {"url"} <= set(spec) <= {"url", "format"}:
        return {"target_kind": "webhook", "webhook_url": spec["url"], "webhook_format": spec.get("format", "")}
    spec = target.get(HTTP)
    if isinstance(spec, dict) and {"url"} <= set(spec) <= {"method", "url", "headers", "body"}:
        return {
            "target_kind": "http",
            "http_url": spec["url"],
            "http_method": spec.get("method", ""),
            "http_headers": _written(spec["headers"]) if "headers" in spec else "",
            "http_body": _written(spec["body"]) if "body" in spec else "",
        }
    return {"target_kind": "other", "target_json": _written(target)}


def _written(value: Any) -> str:
    return pretty(msgspec.json.encode(value).decode())


def target_of(values: Values) -> dict[str, Any]:
    """The target of the form, as a part of a schedule's JSON."""
    kind = values.get("target_kind", "handler")
    given = {name: values.get(name, "").strip() for name in ("webhook_url", "webhook_format", "stored", "target_json")}
    match kind:
        case "handler":
            return {}
        case "webhook":
            if given["webhook_format"] in ("", "standard"):
                return {"target": {WEBHOOK: given["webhook_url"]}}
            return {"target": {WEBHOOK: {"url": given["webhook_url"], "format": given["webhook_format"]}}}
        case "http":
            return {"target": {HTTP: _request(values)}}
        case "stored":
            channel = HTTP if values.get("stored_channel") == HTTP else WEBHOOK
            return {"target": {channel: {"target": given["stored"]}}}
        case "other":
            target = read_json_text(given["target_json"] or "null", "target_json")
            if is_command(target):
                raise Invalid([Problem("target_json", NO_COMMANDS)])
            return {} if target is None else {"target": target}
    raise Invalid([Problem("target_kind", f"must be one of {', '.join(TARGET_KINDS)}, not {kind[:50]!r}")])


def _request(values: Values) -> dict[str, Any]:
    problems: list[Problem] = []
    spec: dict[str, Any] = {"method": values.get("http_method", "").strip().upper() or "POST"}
    spec["url"] = values.get("http_url", "").strip()
    for field in ("headers", "body"):
        text = values.get(f"http_{field}", "").strip()
        try:
            if text:
                spec[field] = read_json_text(text, f"http_{field}")
        except Invalid as error:
            problems += error.problems
    if problems:
        raise Invalid(problems)
    return spec
