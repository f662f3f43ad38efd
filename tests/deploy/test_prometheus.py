"""The rules by themselves: well formed, tested both ways, and each alert with a section of the operator's manual."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import LabError
from lab.measuring.prometheus import promtool
from proxy.observing.exposition import METRICS

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
MANUAL = ROOT / "docs" / "runbooks.md"
RULES = ("recording.rules.yaml", "alerts.rules.yaml")
TEST = "alerts.test.yaml"
EXTERNAL = {
    "kafka_server_replicamanager_isrshrinks_total",
    "up",
    "replication_throttle_guard_around",
    "replication_throttle_guard_refused",
    "replication_throttle_guard_ways",
    "replication_throttle_guard_last_look_timestamp_seconds",
}
"""Metrics that are not the sidecar's."""


def rules(file: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / file).read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in rules("alerts.rules.yaml")}


def expectations() -> list[dict[str, Any]]:
    tests = yaml.safe_load((PROMETHEUS / TEST).read_text("utf-8"))["tests"]
    return [expected for test in tests for expected in test["alert_rule_test"]]


def anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def alert_sections() -> list[str]:
    """The headings of the third level below "Alerts"."""
    text = MANUAL.read_text("utf-8")
    chapter = text[text.index("\n## Alerts\n") + 1 :]
    chapter = chapter[: chapter.find("\n## ", 1)]
    return re.findall(r"^### (.+)$", chapter, re.MULTILINE)


def test_rules_are_well_formed() -> None:
    assert f"SUCCESS: {len(ALERTS)} rules found" in promtool("check", "rules", *RULES, directory=PROMETHEUS)


def test_every_alert_fires_and_stays_silent_as_promtool_sees_it() -> None:
    assert "SUCCESS" in promtool("test", "rules", TEST, directory=PROMETHEUS)


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_is_expected_both_ways(name: str) -> None:
    found = [bool(expected["exp_alerts"]) for expected in expectations() if expected["alertname"] == name]
    assert set(found) == {True, False}


@pytest.mark.parametrize("expression", ["vector(0) > 1", "vector(1)"], ids=["never", "always"])
def test_promtool_would_notice_alerts_that_never_or_always_fire(expression: str, tmp_path: Path) -> None:
    for file in (*RULES, TEST):
        shutil.copy(PROMETHEUS / file, tmp_path)
    broken = yaml.safe_load((tmp_path / "alerts.rules.yaml").read_text("utf-8"))
    for rule in broken["groups"][0]["rules"]:
        rule["expr"] = expression
        rule.pop("for", None)
    (tmp_path / "alerts.rules.yaml").write_text(yaml.safe_dump(broken), "utf-8")
    tests = tmp_path / TEST  # every alert fires all the time, which takes a while each time: less often, then
    tests.write_text(tests.read_text("utf-8").replace("evaluation_interval: 1m", "evaluation_interval: 5m"), "utf-8")
    with pytest.raises(LabError) as refused:
        promtool("test", "rules", TEST, directory=tmp_path)
    assert set(re.findall(r"alertname: *(\w+), *time", str(refused.value))) == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_says_how_bad_what_and_where_to_read_on(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{anchor(name)}"


def test_links_to_runbooks_can_be_made_absolute(tmp_path: Path) -> None:
    """`make rules` in a copy of the tree, where nobody's build/ is touched."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(PROMETHEUS, tmp_path / "deploy" / "prometheus")
    (tmp_path / "deploy" / "grafana").mkdir()
    shutil.copy(ROOT / "deploy" / "grafana" / "kafka-throttle-sidecar.json", tmp_path / "deploy" / "grafana")
    make = ["make", "--silent", "--directory", str(tmp_path), "rules"]
    subprocess.run([*make, "RUNBOOKS=https://wiki.example/kafka/operating"], check=True)
    written = yaml.safe_load((tmp_path / "build" / "prometheus" / "alerts.rules.yaml").read_text("utf-8"))
    assert [rule["annotations"].pop("runbook_url") for rule in written["groups"][0]["rules"]] == [
        f"https://wiki.example/kafka/operating#{anchor(name)}" for name in ALERTS
    ]
    assert (tmp_path / "build" / "prometheus" / "recording.rules.yaml").exists()
    dashboard = (tmp_path / "build" / "prometheus" / "kafka-throttle-sidecar.json").read_text("utf-8")
    assert '"https://wiki.example/kafka/operating#alerts"' in dashboard
    assert "docs/runbooks.md" not in dashboard
    refused = subprocess.run(make, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "RUNBOOKS is not set" in refused.stderr


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    assert sorted(alert_sections()) == sorted(ALERTS)


def test_rules_use_metrics_that_there_are() -> None:
    ours = {metric.name for metric in METRICS} | EXTERNAL
    recorded = {rule["record"] for rule in rules("recording.rules.yaml")}
    for rule in [*rules("recording.rules.yaml"), *ALERTS.values()]:
        selectors = re.findall(r"\b(?:replication_throttle|kafka)[\w:]*|\b\w+Rate\b|\bup\b", rule["expr"])
        assert selectors, rule
        assert set(selectors) <= ours | recorded, rule
