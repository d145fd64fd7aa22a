"""Texts of event types with the names of users in them, languages, and changes of what a tenant sets for a type."""

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from duly.decide.checks import target_problems, write_json
from duly.decide.targets.commands import calendar_problems
from duly.decide.targets.origin import via_of
from duly.errors import Invalid, Problem
from duly.records.calendar.type_settings import NO_TEXTS, TypeSettings
from duly.records.user import User

LONGEST_TEXT = 1000
"""Characters of a text, at most."""

MOST_TEXTS = 100
"""Languages for which one type has texts, at most."""

DEFAULT = "default"
"""In place of a language: the text for users of all other languages, and of none."""

LANGUAGE = "language"
"""The attribute of a user that says which text they get."""

TEXT_FIELDS = ("first_name", "last_name", "full_name")
"""What a text may name. Nothing that changes with the years: the event of the next year has the same text."""

TEXT_DEPENDS_ON = frozenset({"first_name", "last_name", f"attributes.{LANGUAGE}"})
"""The fields of a user that any text may need."""

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
LANGUAGE_TAG = r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}"
"""A language, as callers may write it."""

_LANGUAGE = re.compile(LANGUAGE_TAG)

FIELDS = ("texts", "target")


# -- texts


def filled(text: str, user: User) -> str:
    """The text with the names of a user. (A substitution of these names and nothing else: a template language would let
    a tenant read whatever its expressions reach.)"""
    names = {
        "first_name": user.first_name,
        "last_name": user.last_name,
        "full_name": f"{user.first_name} {user.last_name}",
    }
    if problems := list(text_problems("text", text)):
        raise Invalid(problems)
    return _BRACES.sub(lambda found: names[found[1]] if found[1] is not None else found[0][0], text)


def text_problems(path: str, text: Any) -> Iterator[Problem]:
    if not isinstance(text, str):
        yield Problem(path, f"expected text, not {text!r:.50}")
        return
    if not 1 <= len(text) <= LONGEST_TEXT:
        yield Problem(path, f"must have 1 to {LONGEST_TEXT:,} characters, has {len(text):,}")
    known = ", ".join(f"{{{name}}}" for name in TEXT_FIELDS)
    for found in _BRACES.finditer(text):
        if found[1] is not None and found[1] not in TEXT_FIELDS:
            yield Problem(path, f"{found[0]!r:.50} is not a field of a text; known fields: {known}")
        elif found[0] in ("{", "}"):
            yield Problem(
                path, f"has a single {found[0]} at {found.start() + 1}: write {found[0] * 2} for the character"
            )


def text_for(texts: Mapping[str, str], user: User) -> str | None:
    """The text for the language of a user: that of ``de-AT``, else of ``de``, else the default one; None if none is
    set."""
    if not texts:
        return None
    language = None if user.attributes_json is None else canonical_language(user.attributes.get(LANGUAGE))
    while language:
        if language in texts:
            return texts[language]
        language = language.rpartition("-")[0]
    return texts.get(DEFAULT)


def canonical_language(written: Any) -> str | None:
    """The language tag as it is stored, such as ``de-AT`` for ``de_at``; None if it is none."""
    if not isinstance(written, str) or not _LANGUAGE.fullmatch(written):
        return None
    first, *others = written.replace("_", "-").split("-")
    return "-".join([first.lower(), *(_subtag(one) for one in others)])


def _subtag(one: str) -> str:
    if len(one) == 2:
        return one.upper()
    return one.title() if len(one) == 4 else one.lower()


# -- changes


def changed_settings(
    settings: TypeSettings, changes: Mapping[str, Any], channels: Collection[str], now: datetime
) -> TypeSettings:
    """The settings with some of them changed; raises Invalid with every problem at once. Of texts, the given languages
    are changed or removed, and the others stay."""
    problems = [
        Problem(str(field)[:50], f"is not a setting of an event type; known: {', '.join(FIELDS)}")
        for field in changes
        if field not in FIELDS
    ]
    anew: dict[str, Any] = {}
    if "texts" in changes:
        anew["texts_json"] = _texts(settings, changes["texts"], problems)
    if "target" in changes:
        target = changes["target"]
        written = None if target is None else write_json(target, "target")
        if isinstance(written, Problem):
            problems.append(written)
        else:
            problems += [*target_problems(target, channels), *calendar_problems("target", target)]
            anew |= {"target_json": written, "via": None if target is None else via_of(channels)}
    if problems:
        raise Invalid(problems)
    changed = msgspec.structs.replace(settings, **anew)
    if changed == settings:
        return settings
    return msgspec.structs.replace(changed, follow_at=now, follow_after=None, recheck=False)


def _texts(settings: TypeSettings, given: Any, problems: list[Problem]) -> str:
    if not isinstance(given, Mapping):
        problems.append(
            Problem("texts", f'expected an object such as {{"de": "Hallo {{first_name}}"}}, not {given!r:.50}')
        )
        return NO_TEXTS
    if settings.default_text is None:
        problems.append(
            Problem("texts", f"cannot be set: event type {settings.type!r} has no default_text, its message is its own")
        )
    texts: dict[str, str] = dict(settings.texts)
    for written, text in given.items():
        path = f"texts.{written!s:.50}"
        language = DEFAULT if written == DEFAULT else canonical_language(written)
        if language is None:
            problems.append(Problem(path, f"is not a language: expected a tag such as de or de-AT, or {DEFAULT}"))
        elif text is None:
            texts.pop(language, None)
        else:
            problems += text_problems(path, text)
            texts[language] = text
    if len(texts) > MOST_TEXTS:
        problems.append(Problem("texts", f"has {len(texts)} languages; at most {MOST_TEXTS}"))
    written = NO_TEXTS if problems else write_json(dict(sorted(texts.items())), "texts")
    if isinstance(written, Problem):
        problems.append(written)
        return NO_TEXTS
    return written
