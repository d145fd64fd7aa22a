"""Templates of schedules as tables."""

from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from duly.cli.events.views import empty_table, fields
from duly.cli.output import readable
from duly.records.template import Template


def table(found: Sequence[Template]) -> RenderableType:
    drawn = empty_table()
    for heading in ("NAME", "WHOSE", "RULE", "MEANING"):
        drawn.add_column(heading, overflow="fold", no_wrap=heading in ("NAME", "WHOSE"))
    for template in found:
        settings = template.settings
        others = ", ".join(readable(_written(name, value)) for name, value in settings.items() if name != "rule")
        whose = "built in" if template.built_in else "own"
        drawn.add_row(readable(template.name), whose, _rule(settings.get("rule")), template.meaning or others)
    return drawn


def one_template(template: Template) -> RenderableType:
    return Group(Text(readable(template.name), "bold"), "", fields(_facts(template)))


def _facts(template: Template) -> Iterator[tuple[str, str]]:
    if template.built_in:
        yield "built in", template.meaning or ""
    else:
        yield "tenant", template.tenant
    for name, value in template.settings.items():
        yield name, _rule(value) if name == "rule" else readable(_text(value))


def _rule(rule: dict[str, object] | None) -> str:
    return "–" if rule is None else readable(", ".join(_written(name, value) for name, value in rule.items()))


def _written(name: str, value: object) -> str:
    return f"{name} {_text(value)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
