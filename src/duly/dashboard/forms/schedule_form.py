"""The form of a schedule: its fields as text, from a schedule, and as the JSON that the API takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from duly.dashboard.forms.json_text import pretty, read_json_text
from duly.dashboard.forms.target_form import target_of, target_values
from duly.decide.retry import DEFAULT as DEFAULT_RETRY
from duly.errors import Invalid, Problem
from duly.records.schedule import Schedule
from duly.records.wire.schedule_reader import editable
from duly.rules.policies import DEFAULT as NO_POLICIES

Values = Mapping[str, str]

KINDS = ("cron", "every", "rrule", "yearly", "at")
"""The kinds of rules that the form can make."""

RULE_FIELDS = {
    "cron": {"cron": "cron"},
    "every": {"every": "every", "every_start": "start"},
    "rrule": {"rrule": "rrule", "rrule_start": "start"},
    "yearly": {"yearly": "yearly", "yearly_at": "at", "leap": "leap", "since": "since"},
    "at": {"at": "at"},
}
"""The fields of the form for each kind of rule, and what they are called in its JSON."""

FIELDS = frozenset(
    "name type tags kind cron every every_start rrule rrule_start yearly yearly_at leap since at timezone payload "
    "target_kind webhook_url webhook_format http_method http_url http_headers http_body stored target_json misfire "
    "tolerance limit overlap max_concurrent depends_on within start end exclude jitter expires mode gap dst_overlap "
    "max_attempts base factor max enabled".split()
)
"""The fields of the form at which problems are shown."""

TEXTS = ("start", "end", "expires", "jitter")
"""Policies that are one text."""

BEGINNING: Values = {
    "kind": "cron",
    "cron": "",
    "timezone": "UTC",
    "payload": "null",
    "target_kind": "handler",
    "misfire": "latest",
    "overlap": "allow",
    "leap": "feb28",
    "mode": "live",
    "enabled": "yes",
}
"""What the form of a new schedule begins with."""


# -- from a schedule


def values_of(schedule: Schedule) -> dict[str, str]:
    """The fields of the form, filled in from a schedule."""
    said = editable(schedule)
    values = {
        "name": schedule.name,
        "type": schedule.type,
        "timezone": schedule.timezone,
        "payload": pretty(schedule.payload_json),
        "enabled": "yes" if schedule.enabled else "",
        "overlap": said["overlap"],
        "mode": said["mode"],
        "tags": ", ".join(said["tags"]),
        "exclude": "\n".join(said["exclude"]),
        "expected": schedule.tag,
    }
    values |= _rule_values(said["rule"]) | target_values(schedule.target)
    values |= {name: said[name] or "" for name in TEXTS}
    values["jitter"] = "" if said["jitter"] == "0s" else values["jitter"]
    values |= _misfire_values(said["misfire"]) | _retry_values(said["retry"])
    values["max_concurrent"] = "" if said["max_concurrent"] is None else str(said["max_concurrent"])
    values |= {"gap": said["dst"].get("gap") or "", "dst_overlap": said["dst"].get("overlap") or ""}
    depends_on = said["depends_on"] or {}
    return values | {"depends_on": depends_on.get("schedule", ""), "within": depends_on.get("within", "")}


def _rule_values(rule: dict[str, Any]) -> dict[str, str]:
    kind = next((kind for kind in KINDS if kind in rule), "cron")
    named = RULE_FIELDS[kind]
    return {"kind": kind} | {field: str(rule[own]) for field, own in named.items() if rule.get(own) is not None}


def _misfire_values(misfire: dict[str, Any]) -> dict[str, str]:
    usual = NO_POLICIES.to_json()["misfire"]
    tolerance = "" if misfire["tolerance"] == usual["tolerance"] else misfire["tolerance"]
    limit = "" if misfire["limit"] == usual["limit"] else str(misfire["limit"])
    return {"misfire": misfire["policy"], "tolerance": tolerance, "limit": limit}


def _retry_values(retry: dict[str, Any]) -> dict[str, str]:
    usual = DEFAULT_RETRY.to_json()
    return {
        name: "" if retry[own] == usual[own] else _number(retry[own])
        for name, own in (("max_attempts", "max_attempts"), ("base", "base"), ("factor", "factor"), ("max", "max"))
    }


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


# -- to JSON


class FormBody(NamedTuple):
    """The JSON that a form describes, as far as it can be read, and what cannot."""

    body: dict[str, Any]
    problems: Sequence[Problem]


def body_of(values: Values, there: Schedule | None) -> dict[str, Any]:
    """The JSON of the schedule that the form describes, without what is as usual. Fields that the form does not have
    stay as they are. Raises Invalid if a field cannot be read; what a value means is checked when it is put."""
    body, problems = read_form(values, there)
    if problems:
        raise Invalid(problems)
    return body


def read_form(values: Values, there: Schedule | None) -> FormBody:
    """The same, with the problems of the fields that cannot be read beside what the other fields say."""
    problems: list[Problem] = []
    body = {} if there is None else _kept(editable(there))
    body |= {"type": values.get("type", "").strip(), "timezone": values.get("timezone", "").strip() or "UTC"}
    body["rule"] = _rule(values, {} if there is None else there.rule, problems)
    _read(problems, lambda: body.update(_payload(values.get("payload", ""))))
    _read(problems, lambda: body.update(target_of(values)))
    body |= {name: values[name].strip() for name in TEXTS if values.get(name, "").strip()}
    body |= _objects(values, problems)
    days = [day.strip() for day in values.get("exclude", "").replace(",", "\n").splitlines() if day.strip()]
    body |= {"exclude": days} if days else {}
    tags = [tag.strip() for tag in values.get("tags", "").split(",") if tag.strip()]
    body |= {"tags": tags} if tags or there is not None else {}
    body |= {name: values[name] for name in ("overlap", "mode") if values.get(name) not in (None, "", "allow", "live")}
    body["enabled"] = bool(values.get("enabled"))
    return FormBody(body, problems)


OF_THE_FORM = frozenset(
    "name tenant type tags rule timezone payload target retry misfire overlap max_concurrent depends_on start end dst "
    "exclude mode jitter expires enabled".split()
)
"""The fields of a schedule that the form has. What people can set besides is kept by an edit."""


def _kept(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in OF_THE_FORM and value is not None}


def _read(problems: list[Problem], read: Callable[[], None]) -> None:
    try:
        read()
    except Invalid as error:
        problems += error.problems


def _rule(values: Values, before: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    kind = values.get("kind", "cron")
    if kind not in KINDS:
        problems.append(Problem("kind", f"must be one of {', '.join(KINDS)}, not {kind[:50]!r}"))
        return {}
    rule: dict[str, Any] = {}
    for field, own in RULE_FIELDS[kind].items():
        text = values.get(field, "").strip()
        if text or field == kind:
            rule[own] = text
    if kind == "yearly":
        if rule.get("yearly") != "02-29":
            rule.pop("leap", None)
        if "since" in rule and (since := _whole(values, "since", problems)) is not None:
            rule["since"] = since
    return rule | {own: value for own, value in before.items() if kind in before and own in ("exdate", "named")}


def _payload(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    read_json_text(text, "payload")
    written = msgspec.json.format(text, indent=-1)
    return {} if written == "null" else {"payload": msgspec.Raw(written.encode())}


def _objects(values: Values, problems: list[Problem]) -> dict[str, Any]:
    """The policies that are objects, with the fields that differ from the usual."""
    said = {name: values.get(name, "").strip() for name in ("misfire", "tolerance", "base", "factor", "max", "gap")}
    misfire: dict[str, Any] = {"policy": said["misfire"]} if said["misfire"] not in ("", "latest") else {}
    misfire |= {"tolerance": said["tolerance"]} if said["tolerance"] else {}
    retry: dict[str, Any] = {name: said[name] for name in ("base", "max") if said[name]}
    if said["factor"]:
        retry["factor"] = _decimal(said["factor"], problems)
    if (limit := _whole(values, "limit", problems)) is not None:
        misfire["limit"] = limit
    if (attempts := _whole(values, "max_attempts", problems)) is not None:
        retry["max_attempts"] = attempts
    most = _whole(values, "max_concurrent", problems)
    dst = {"gap": said["gap"], "overlap": values.get("dst_overlap", "").strip()}
    depends_on = {"schedule": values.get("depends_on", "").strip(), "within": values.get("within", "").strip()}
    found = {
        "misfire": misfire,
        "retry": retry,
        "dst": {name: value for name, value in dst.items() if value},
        "depends_on": depends_on if any(depends_on.values()) else {},
    }
    objects: dict[str, Any] = {name: value for name, value in found.items() if value}
    return objects if most is None else {**objects, "max_concurrent": most}


def _whole(values: Values, field: str, problems: list[Problem]) -> int | None:
    text = values.get(field, "").strip()
    if not text:
        return None
    if text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 12:
        return int(text)
    problems.append(Problem(field, f"must be a whole number, not {text[:50]!r}"))
    return None


def _decimal(text: str, problems: list[Problem]) -> float | None:
    try:
        return float(text) if len(text) < 30 else None
    except ValueError:
        problems.append(Problem("factor", f"must be a number, not {text[:50]!r}"))
        return None


# -- problems, at the fields that they are about

_FIELDS = {
    "rule.rrule": "rrule",
    "rule.exdate": "rrule",
    "rule.cron": "cron",
    "rule.every": "every",
    "rule.yearly": "yearly",
    "rule.leap": "leap",
    "rule.since": "since",
    "misfire.policy": "misfire",
    "misfire.tolerance": "tolerance",
    "misfire.limit": "limit",
    "retry.max_attempts": "max_attempts",
    "retry.base": "base",
    "retry.factor": "factor",
    "retry.max": "max",
    "retry": "max_attempts",
    "dst.gap": "gap",
    "dst.overlap": "dst_overlap",
    "depends_on.schedule": "depends_on",
    "depends_on.within": "within",
}


def field_of(path: str, values: Values) -> str:
    """The field of the form that a problem is about; it is empty for one that is about none."""
    kind = values.get("kind", "cron")
    if path == "rule.start":
        return "rrule_start" if kind == "rrule" else "every_start"
    if path == "rule.at":
        return "yearly_at" if kind == "yearly" else "at"
    if path.startswith("target"):
        return _target_field(path, values.get("target_kind", ""))
    if path in _FIELDS:
        return _FIELDS[path]
    first = path.partition(".")[0].partition("[")[0]
    return kind if first == "rule" else first


def _target_field(path: str, kind: str) -> str:
    last = path.rpartition(".")[2]
    match kind:
        case "webhook":
            return "webhook_format" if last == "format" else "webhook_url"
        case "http":
            return f"http_{last}" if last in ("method", "headers", "body") else "http_url"
        case "stored":
            return "stored"
        case "other":
            return "target_json"
    return "target_kind"
