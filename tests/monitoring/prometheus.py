"""A real Prometheus, from Debian's package, and its tool for rules."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.brokers import Server
from tests.debian import PROMETHEUS, unpacked

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/duly-alerts.yml"
RULE_TESTS = ROOT / "deploy/prometheus/duly-alerts.test.yml"
DASHBOARD = ROOT / "deploy/grafana/duly.json"


def promtool(*words: str | Path) -> str:
    """What the tool says; it must be content."""
    tool = unpacked(PROMETHEUS) / "usr/bin/promtool"
    done = subprocess.run([tool, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class PrometheusServer(Server):
    """Scrapes these places every second, and evaluates the rules."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """*places*: a host and port by the name of a job."""
        super().__init__(PROMETHEUS)
        jobs = [{"job_name": job, "static_configs": [{"targets": [place]}]} for job, place in places.items()]
        settings = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": jobs,
        }
        (self.folder / "prometheus.yml").write_bytes(msgspec.json.encode(settings))  # JSON is YAML

    def command(self) -> list[str]:
        return [
            str(unpacked(PROMETHEUS) / "usr/bin/prometheus"),
            f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def answers(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/-/ready", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"http://127.0.0.1:{self.port}/api/v1/{path}", params=query, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]
