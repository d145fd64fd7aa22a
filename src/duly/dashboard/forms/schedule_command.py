"""The command line that puts the same schedule as a form: with options where these can say it all, and otherwise from a
file."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from duly.decide.targets.targets import HTTP, WEBHOOK, named

OPTIONS = {
    "timezone": "timezone",
    "start": "start",
    "end": "end",
    "overlap": "overlap",
    "max_concurrent": "max-concurrent",
    "mode": "mode",
    "jitter": "jitter",
    "expires": "expires",
}
"""Fields of a schedule that are one option each."""

RULES = {"cron": "cron", "every": "every", "rrule": "rrule", "yearly": "yearly", "at": "once"}
DETAILS = {
    "every": {"start": "anchor"},
    "rrule": {"start": "anchor"},
    "yearly": {"at": "at", "leap": "leap"},
    "cron": {},
    "at": {},
}
"""The options of each kind of rule besides the one that is called like it."""

SAID_OTHERWISE = frozenset("type rule payload target enabled misfire depends_on dst exclude tags".split())


class Unsayable(Exception):
    """The options of the command line cannot say this."""


def put_words(name: str, body: Mapping[str, Any]) -> list[str] | None:
    """The words after ``duly``, or None if options cannot say all of it."""
    try:
        options = [*_options(body)]
    except Unsayable:
        return None
    named_at_last = ["--", name] if name.startswith("-") else []
    return ["schedules", "put", *([] if named_at_last else [name]), *options, *named_at_last]


def _options(body: Mapping[str, Any]) -> Iterator[str]:
    if set(body) - SAID_OTHERWISE - set(OPTIONS):
        raise Unsayable
    yield from _said("type", body["type"])
    yield from _rule(body["rule"])
    for field, option in OPTIONS.items():
        if field in body and not (field == "timezone" and body[field] == "UTC"):
            yield from _said(option, body[field])
    if "payload" in body:
        yield from _said("payload", bytes(body["payload"]).decode())
    yield from _target(body.get("target"))
    yield from _policies(body)
    for tag in body.get("tags", ()):
        yield from _said("tag", tag)
    if body.get("tags") == []:
        yield "--no-tags"
    yield "--enabled" if body["enabled"] else "--paused"


def _said(option: str, value: Any) -> Iterator[str]:
    """An option and its value in two words, or in one if the value would look like an option."""
    text = str(value)
    if not text or text != text.strip():
        raise Unsayable
    if text.startswith("-"):
        yield f"--{option}={text}"
    else:
        yield from (f"--{option}", text)


def _rule(rule: Mapping[str, Any]) -> Iterator[str]:
    kind = next((kind for kind in RULES if kind in rule and (kind != "at" or "yearly" not in rule)), None)
    if kind is None or set(rule) - {kind} - set(DETAILS[kind]):
        raise Unsayable
    yield from _said(RULES[kind], rule[kind])
    for field, option in DETAILS[kind].items():
        if field in rule:
            yield from _said(option, rule[field])


def _target(target: Any) -> Iterator[str]:
    if target is None:
        return
    spec = target.get(WEBHOOK) if isinstance(target, dict) else None
    if isinstance(spec, str):
        yield from _said("webhook", spec)
    elif isinstance(spec, dict) and set(spec) == {"url", "format"}:
        yield from (*_said("webhook", spec["url"]), *_said("format", spec["format"]))
    elif (stored := named(target)) is not None and set(target[stored[0]]) == {"target"} and HTTP not in target:
        yield from _said("target", stored[1])
    else:
        raise Unsayable


def _policies(body: Mapping[str, Any]) -> Iterator[str]:
    for field, options in (
        ("misfire", {"policy": "misfire", "tolerance": "tolerance", "limit": "limit"}),
        ("depends_on", {"schedule": "depends-on", "within": "within"}),
        ("dst", {"gap": "gap", "overlap": "dst-overlap"}),
    ):
        for own, value in (body.get(field) or {}).items():
            yield from _said(options[own], value)
    for day in body.get("exclude", ()):
        yield from _said("exclude", day)


def put_from_file(name: str, body: Mapping[str, Any]) -> str:
    """The JSON for ``duly schedules put --file -``."""
    return msgspec.json.encode({"name": name, **body}).decode()
