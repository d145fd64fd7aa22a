"""The queries of the alert rules and of the dashboard, and what they ask for."""

import re
from typing import Any, NamedTuple

import msgspec

from tests.monitoring.prometheus import DASHBOARD, RULES

SELECTOR = re.compile(r"\b((?:duly|timer)_\w+|up)\b(\{[^}]*\})?")
GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")


class Query(NamedTuple):
    expr: str
    labels: frozenset[str]  # by which series are told apart

    @classmethod
    def read(cls, expr: str, legend: str = "") -> "Query":
        expr = expr.replace("$__rate_interval", "5m").replace("$job", "duly.*")
        grouping = {label.strip() for found in GROUPING.findall(expr) for label in found.split(",")}
        return cls(expr, frozenset(grouping | set(LEGEND.findall(legend))))

    @property
    def selectors(self) -> list[tuple[str, str]]:
        """The metrics, each with its conditions."""
        outside = GROUPING.sub("", self.expr)
        return [(name, conditions) for name, conditions in SELECTOR.findall(outside)]


def dashboard() -> Any:
    return msgspec.json.decode(DASHBOARD.read_bytes())


def of_dashboard() -> list[Query]:
    return [
        Query.read(target["expr"], target["legendFormat"])
        for panel in dashboard()["panels"]
        for target in panel.get("targets", ())
    ]


def alerts() -> dict[str, str]:
    """The text of each alert, by its name."""
    parts = re.split(r"^      - alert: (\w+)\n", RULES.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def of_alerts() -> list[Query]:
    found = []
    for text in alerts().values():
        expr = re.search(r"^        expr: (?:\|\n)?(.*?)^        (?:for|labels):", text, re.MULTILINE | re.DOTALL)
        assert expr is not None, text
        found.append(Query.read(" ".join(expr[1].split())))
    return found
