"""Event types and what a tenant has set for them, as tables."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from duly.cli.events.views import empty_table, fields
from duly.cli.output import readable
from duly.decide.calendars.type_settings import DEFAULT
from duly.records.calendar.type_settings import TypeSettings

OWN_TEXT = "the type's own"


def table(found: Sequence[TypeSettings]) -> RenderableType:
    drawn = empty_table()
    for heading in ("TYPE", "TEXTS", "DEFAULT TARGET"):
        drawn.add_column(heading, overflow="fold")
    for settings in found:
        languages = ", ".join(settings.texts) or OWN_TEXT
        drawn.add_row(readable(settings.type), languages, readable(settings.target_json or "–"))
    return drawn


def one_type(settings: TypeSettings) -> RenderableType:
    return Group(Text(readable(settings.type), "bold"), "", fields(_facts(settings)))


def _facts(settings: TypeSettings) -> Iterator[tuple[str, str]]:
    yield "tenant", settings.tenant
    for language, text in settings.texts.items():
        yield ("text" if language == DEFAULT else f"text, {language}"), text
    if settings.default_text is not None and DEFAULT not in settings.texts:
        yield "text", f"{settings.default_text} ({OWN_TEXT})"
    yield "default target", settings.target_json or "none: users' own targets, or Python handlers"
    if settings.following:
        yield "waiting events", "are being changed in the background"
