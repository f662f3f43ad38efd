"""The committed dashboard is the generated one, shows every metric, and the manual names its panels rightly."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana.dashboard import FILE, QUOTA_CHANGES, RUNBOOKS, as_json
from deploy.grafana.panels import ROWS
from proxy.observing.exposition import METRICS

ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "docs" / "runbooks.md"
METRICS_PAGE = (ROOT / "docs" / "metrics.md").read_text("utf-8")
PROVISIONING = ROOT / "deploy" / "grafana" / "provisioning"
PANELS = [panel for row in ROWS for panel in row.panels]
HISTOGRAMS = {metric.name + "_bucket": metric.name for metric in METRICS if metric.kind == "histogram"}


def committed() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def test_the_committed_file_is_the_generated_one() -> None:
    assert FILE.read_text("utf-8") == as_json(), "python -m deploy.grafana"


def test_every_expression_is_of_metrics_that_there_are() -> None:
    words = {word for panel in PANELS for query in panel.queries for word in re.findall(r"[\w:]+", query.expression)}
    of_the_sidecar = {HISTOGRAMS.get(word, word) for word in words if word.startswith("replication_throttle_")}
    of_guards = set(re.findall(r"^\| `(replication_throttle_guard_\w+)`", METRICS_PAGE, re.MULTILINE))
    assert of_the_sidecar <= {metric.name for metric in METRICS} | of_guards


def every_panel() -> list[dict[str, Any]]:
    """Rows too; those of folded rows as well."""
    return [each for panel in committed()["panels"] for each in (panel, *(panel.get("panels") or ()))]


def test_all_rows_but_two_are_folded_with_their_panels() -> None:
    rows = [panel for panel in committed()["panels"] if panel["type"] == "row"]
    assert [row["collapsed"] for row in rows] == [False, False, *(True for _ in ROWS[2:])]
    assert [[each["title"] for each in row["panels"]] for row in rows[2:]] == [
        [panel.title for panel in row.panels] for row in ROWS[2:]
    ]


def test_every_expression_heeds_the_variables() -> None:
    """Clusters that share a Prometheus would be added up, and a chosen role would not be the only one shown."""
    roles = {metric.name for metric in METRICS if "role" in metric.labels}
    expressions = [query.expression for panel in PANELS for query in panel.queries]
    for expression in (*expressions, QUOTA_CHANGES):
        selectors = re.findall(r"([\w:]+)\{([^}]*)\}", expression)
        assert selectors, expression
        for name, selector in selectors:
            assert 'cluster=~"$cluster"' in selector, expression
            if HISTOGRAMS.get(name, name) in roles:
                assert 'role=~"$role"' in selector, expression
    for role in ("Leader", "Follower"):
        (found,) = (each for each in expressions if f"{role}ReplicationThrottledRate" in each)
        assert 'role=~"$role"' in found


def test_links_lead_to_runbooks_that_there_are() -> None:
    links = [link["url"] for each in (committed(), *every_panel()) for link in each.get("links") or ()]
    sections = {f"#{title.lower()}" for title in re.findall(r"^#+ (\w+)$", MANUAL.read_text("utf-8"), re.MULTILINE)}
    assert len(links) == 1 + sum(bool(panel.alert) for panel in PANELS)
    assert {url.removeprefix(RUNBOOKS) for url in links} <= sections


def test_changes_of_quotas_are_marked_on_the_graphs() -> None:
    (annotation,) = committed()["annotations"]["list"]
    assert annotation["expr"] == QUOTA_CHANGES
    assert annotation["enable"]
    assert {annotation["titleFormat"], annotation["step"]} == {"Quota changed", "60s"}


def test_no_two_panels_overlap_and_each_has_an_id() -> None:
    panels = every_panel()
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_what_is_asked_in_an_incident_has_a_panel_and_there_are_no_more_than_can_be_read() -> None:
    asked = {"conditions", "overrides", "replicas_in_need", "guard_around", "listener_limit_bytes_per_second",
             "listener_client_bytes_total"}  # fmt: skip
    expressions = " ".join(query.expression for panel in PANELS for query in panel.queries)
    assert {name for name in asked if f"replication_throttle_{name}" not in expressions} == set()
    assert len(PANELS) <= 24


def test_titles_are_unique_and_everything_is_explained() -> None:
    assert len({panel.title for panel in PANELS}) == len(PANELS)
    assert all(panel.description.endswith(".") for panel in PANELS)


def test_panels_that_the_manual_names_are_there() -> None:
    """A runbook calls the panels to look at by their titles."""
    bullets = re.findall(r"^- \*\*Graph\*\*: (.+)$", MANUAL.read_text("utf-8"), re.MULTILINE)
    named = {name for bullet in bullets for name in re.findall(r"\*([^*]+)\*", bullet)}
    assert len(bullets) >= 15
    assert named <= {panel.title for panel in PANELS}


def test_provisioning_is_grafanas() -> None:
    sources = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yaml").read_text("utf-8"))
    providers = yaml.safe_load((PROVISIONING / "dashboards" / "kafka-throttle-sidecar.yaml").read_text("utf-8"))
    assert [source["type"] for source in sources["datasources"]] == ["prometheus"]
    assert [provider["type"] for provider in providers["providers"]] == ["file"]


def defaults(title: str) -> dict[str, Any]:
    """How Grafana shows the panel's values."""
    (found,) = (panel for panel in every_panel() if panel["title"] == title)
    shown: dict[str, Any] = found["fieldConfig"]["defaults"]
    return shown


@pytest.mark.parametrize("title", ["Replicas behind", "Time left"])
def test_a_move_that_is_under_way_is_nothing_to_worry_about(title: str) -> None:
    """The manual: green everywhere and replicas behind, all is well."""
    assert [step["color"] for step in defaults(title)["thresholds"]["steps"]] == ["green"]


def test_other_numbers_at_a_glance_are_bad_from_one_on() -> None:
    for title in ("Conditions", "Under min ISR"):
        assert [step["color"] for step in defaults(title)["thresholds"]["steps"]] == ["green", "orange"]


def test_rates_have_a_window_that_fits_however_often_is_scraped() -> None:
    """A minute holds one sample where a sidecar is scraped once a minute, and the rate of one sample is nothing."""
    windows = [
        window
        for panel in PANELS
        for query in panel.queries
        for window in re.findall(r"\brate\([^\[]*\[([^\]]+)\]", query.expression)
    ]
    assert windows
    assert set(windows) == {"$__rate_interval"}


def test_a_certificate_that_has_expired_is_on_its_graph() -> None:
    """Its days left are below 0, where an axis that begins at 0 shows nothing."""
    assert "min" not in defaults("TLS")
    assert defaults("Rate and quota")["min"] == 0
