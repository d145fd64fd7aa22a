"""The alert rules and the dashboard that Duly ships, by Prometheus' own tools."""

import re
from itertools import combinations
from pathlib import Path

import msgspec
import pytest

from duly.observers.metrics.families import CLAIM_S, FAMILIES
from tests.monitoring.prometheus import ROOT, RULE_TESTS, RULES, promtool
from tests.monitoring.queries import alerts, dashboard, of_alerts, of_dashboard

pytestmark = pytest.mark.usefixtures("debian")


def test_the_rules_are_sound_and_each_alert_fires_when_it_should_and_not_before() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", RULES)
    promtool("test", "rules", RULE_TESTS)


def test_each_alert_is_tested_when_it_fires_and_when_it_does_not() -> None:
    text = RULE_TESTS.read_text(encoding="utf-8")
    fires = set(re.findall(r"alertname: (\w+)\n +exp_alerts: \[\{", text))
    quiet = set(re.findall(r"eval_time: \w+, alertname: (\w+)\}", text))
    assert fires == quiet == set(alerts())


def test_the_thresholds_of_claims_are_bounds_of_their_buckets() -> None:
    """Between two bounds, a quantile is only an estimate."""
    thresholds = [float(found) for found in re.findall(r"histogram_quantile.* > ([\d.]+)", RULES.read_text("utf-8"))]
    assert sorted(thresholds) == [0.1, 0.2, 1.0]
    assert set(thresholds) <= set(CLAIM_S)


def test_the_page_has_each_alert_in_the_order_of_the_rules() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(Duly\w+)` \|", page, re.MULTILINE) == list(alerts())


def test_each_query_of_the_dashboard_is_sound(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": query.expr} for number, query in enumerate(of_dashboard())]
    file = tmp_path / "panels.yml"
    file.write_bytes(msgspec.json.encode({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", file)


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for query in of_dashboard() for name, _ in query.selectors}
    shown = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in shown}
    of_passes = {f"duly_pass_{what}" for what in ("processed", "retried", "failed")}  # those of events say the same
    assert {*FAMILIES} - of_passes <= shown


def test_panels_of_the_dashboard_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_every_query_names_known_metrics() -> None:
    for query in (*of_alerts(), *of_dashboard()):
        assert query.selectors, query.expr
