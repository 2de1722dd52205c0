"""The alert rules and the dashboard of the documentation name series that a broker has, and Prometheus accepts them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import yaml

from tests.service.started import Started, spanwire
from tests.support.peers import require

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILES = DOCS / "operations" / "monitoring"
NAME = re.compile(r"\bspanwire_[a-z_]+")
WIDTH = 24  # columns of a dashboard of Grafana
# Series of links, bridges and destinations are there where these are.
OF_PARTS = re.compile(r"spanwire_(link|bridge|destination)_")


def rules() -> list[dict[str, str]]:
    (group,) = yaml.safe_load((FILES / "alerts.yml").read_text("utf-8"))["groups"]
    found: list[dict[str, str]] = group["rules"]
    return found


def panels() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((FILES / "dashboard.json").read_text("utf-8"))["panels"]
    return found


def named() -> set[str]:
    """The series in the expressions of rules and panels."""
    texts = [rule["expr"] for rule in rules()]
    texts += [json.dumps(panel["targets"]) for panel in panels()]
    return {name for text in texts for name in NAME.findall(text)}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    require("promtool")
    return subprocess.run(["promtool", *arguments], cwd=FILES, capture_output=True, text=True, check=False)


def test_rules_and_panels_name_series_that_the_broker_has(tmp_path: Path) -> None:
    with Started(tmp_path) as broker:
        with broker.stomp() as client:
            client.transact("SEND\ndestination:/queue/ORDERS\nreceipt:1\n\nx", "1")
        done = spanwire("metrics", "--data-directory", str(broker.data))
    scraped = set(NAME.findall(re.sub(r"(?m)^#.*$", "", done.stdout)))
    reference = set(NAME.findall((DOCS / "reference" / "metrics.md").read_text("utf-8")))
    assert {"spanwire_destination_pending_messages", "spanwire_broker_memory_bytes"} <= named() & scraped
    assert {name for name in named() if name not in scraped and not OF_PARTS.match(name)} == set()
    assert {name for name in named() if name not in scraped} <= reference


def test_prometheus_accepts_the_rules_and_they_fire_when_they_should() -> None:
    for arguments in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
        done = promtool(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_says_what_to_do_and_is_tested() -> None:
    tests = (FILES / "alerts_test.yml").read_text("utf-8")
    for rule in rules():
        assert f'alertname="{rule["alert"]}"' in tests, rule["alert"]
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        assert set(annotations) == {"summary", "action"}


def test_panels_lie_beside_each_other_and_not_over_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        assert isinstance(place, dict)
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert cells & taken == set(), panel["title"]
        assert max(x for x, _ in cells) < WIDTH
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())
