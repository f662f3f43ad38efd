"""The one list of what can be wrong, and that everything renders it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from proxy.diagnostics.conditions import GOES_ON_SECONDS, Condition, Conditions, Found, GoingOn, Kind, Severity
from proxy.observing.quota_metrics import QUOTA_METRICS
from proxy.roles import Role
from tests.proxy.observing.test_metrics import sources
from tests.proxy.recorded_log import RecordedLog

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 12, 1, tzinfo=UTC)
RULES = (ROOT / "deploy" / "prometheus" / "alerts.rules.yaml").read_text()
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text()


@pytest.mark.parametrize("kind", Kind)
def test_each_is_in_the_metric_the_alerts_the_log_and_the_runbooks(kind: Kind) -> None:
    """Status and its exit status: tests/operating/status/test_amiss.py; /readyz: tests/proxy/serving."""
    log = RecordedLog()
    Conditions(log).look([Found(kind, "x")], NOW)
    assert [(line["event"], line["name"], line["severity"]) for line in log.lines] == [
        ("condition_raised", kind.label, kind.severity)
    ]
    (metric,) = [each for each in QUOTA_METRICS if each.name.endswith("_conditions")]
    assert (kind.label, kind.severity) in [labels for labels, _ in metric.read(sources())]
    assert f'<a id="{kind.label}"></a>`{kind.label}` | {kind.severity} | {kind.remedy} |' in RUNBOOKS
    if kind.severity is not Severity.NOTE and kind.label in ALERTED_ELSEWHERE:
        assert ALERTED_ELSEWHERE[kind.label] in RULES


ALERTED_ELSEWHERE = {
    "undecoded": "ReplicationThrottleUndecoded",
    "no_quotas": "ReplicationThrottleNoQuotas",
    "quotas_file_wrong": "ReplicationThrottleReloadFailed",
    "deadline_late": "ReplicationThrottleDeadlineLate",
    "journal_not_written": "ReplicationThrottleJournalDropping",
    "accepting_paused": "ReplicationThrottleOverloaded",
    "tls_handshakes_fail": "ReplicationThrottleHandshakesFail",
}


def test_the_alert_leaves_out_those_that_have_another_and_no_more() -> None:
    rules = [rule for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]]
    found = [rule for rule in rules if rule.get("alert", "").startswith("ReplicationThrottleCondition")]
    left_out = [name for rule in found for name in rule["expr"].partition('name!~"')[2].partition('"')[0].split("|")]
    assert sorted(left_out) == sorted(ALERTED_ELSEWHERE)
    assert [rule["labels"]["severity"] for rule in found] == ["critical", "warning"]
    assert {rule.get("alert") for rule in rules} >= set(ALERTED_ELSEWHERE.values())


def test_it_has_begun_when_it_was_found_first_and_ends_when_it_is_found_no_more() -> None:
    log, told = RecordedLog(), list[tuple[str, bool]]()
    conditions = Conditions(log, lambda condition, began: told.append((condition.text, began)))
    later = NOW + timedelta(seconds=1)
    conditions.look([Found(Kind.QUOTA_WARNING, "a", Role.LEADER, subject="a")], NOW)
    conditions.look(
        [Found(Kind.UNDECODED, "{count} b", None, 7), Found(Kind.QUOTA_WARNING, "a", Role.LEADER, subject="a")], later
    )
    undecoded, warning = conditions.current
    assert (undecoded.sentence, undecoded.since, warning.since, warning.role) == ("7 b", later, NOW, "leader")
    conditions.look([Found(Kind.UNDECODED, "{count} b", None, 8)], later)
    assert [each.sentence for each in conditions.current] == ["8 b"]
    conditions.look([], later)
    assert (conditions.current, told) == (
        (), [("a", True), ("{count} b", True), ("a", False), ("{count} b", False)],
    )  # fmt: skip
    assert log.events == ["condition_raised", "condition_raised", "condition_cleared", "condition_cleared"]


def test_what_goes_on_is_told_from_what_was_counted_once() -> None:
    going_on = GoingOn()
    assert [going_on.is_growing("x", value, now) for now, value in enumerate([0.0, 3.0, 3.0])] == [False, True, True]
    assert not going_on.is_growing("x", 3.0, 1 + GOES_ON_SECONDS)
    assert going_on.is_growing("x", 4.0, 2 + GOES_ON_SECONDS)


def test_a_condition_is_json_and_back() -> None:
    import msgspec

    condition = Condition("x", "note", NOW, "t", "d", None, 3)
    assert msgspec.json.decode(msgspec.json.encode(condition), type=Condition) == condition
