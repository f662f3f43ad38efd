"""Grafana's JSON from panels, by Grafana's own typed builders. Knows layout and colours, no metric.

Invariant: the same panels give the same bytes, so the committed file can be compared.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.builders.common import ReduceDataOptions, VizLegendOptions, VizTooltipOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
    VariableSort,
)

from .panel import ONE, PREFIX, ROLE
from .panels import ROWS

if TYPE_CHECKING:
    from .panel import Panel, Query

FILE = Path(__file__).with_name("kafka-throttle-sidecar.json")
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT = 12, 8
_STAT_WIDTH, _STAT_HEIGHT = 4, 4
_OPEN_ROWS = 2
RUNBOOKS = "docs/runbooks.md"
"""The address of the runbooks, as the alerts' runbook_url; `make rules` and the chart's prometheusRule.runbookUrl put
another in its place."""
_EVERY = "60s"
QUOTA_CHANGES = (
    f"changes({PREFIX}limit_bytes_per_second{{{ROLE}}}[{_EVERY}]) > 0"
    f" unless on (job, instance, role) {PREFIX}auto_rate_bytes_per_second"
    f" unless on (job, instance, role) {PREFIX}deadline_timestamp_seconds"
    f" or changes({PREFIX}enforcing{{{ONE}}}[{_EVERY}]) > 0"
)
"""The changes by people and by the clock; a rate that sets itself changes all the time."""
BAD_WHEN_LOW = frozenset({"bool_yes_no"})


def as_json() -> str:
    """Return the dashboard as it is committed and provisioned."""
    built = json.loads(json.dumps(_dashboard().build(), cls=JSONEncoder))
    for annotation in built["annotations"]["list"]:
        # What the typed builder does not know.
        annotation |= {"step": _EVERY, "titleFormat": annotation["name"], "textFormat": "{{instance}} {{role}}"}
    return json.dumps(built, sort_keys=True, indent=1) + "\n"


def _dashboard() -> dashboard.Dashboard:
    made = (
        dashboard.Dashboard("Kafka throttle sidecar")
        .uid("kafka-throttle-sidecar")
        .description(
            "Replication traffic, its quotas and how far replicas are behind. Generated: python -m deploy.grafana"
        )
        .tags(["kafka", "replication", "throttle"])
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("10s")
        .time("now-1h", "now")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_found("cluster", "Cluster", "cluster"))
        .with_variable(_found("instance", "Sidecar", "instance", of='{cluster=~"$cluster"}'))
        .with_variable(
            dashboard.CustomVariable("role")
            .label("Role")
            .values("leader,follower")
            .multi(multi=True)
            .include_all(include_all=True)
        )
        .annotation(
            dashboard.AnnotationQuery()
            .name("Quota changed")
            .datasource(SOURCE)
            .enable(enable=True)
            .icon_color("blue")
            .expr(QUOTA_CHANGES)
        )
        .link(_link("Runbooks", "alerts"))
    )
    ids = itertools.count(1)
    for number, row in enumerate(ROWS):
        head = dashboard.Row(row.title).id(next(ids))
        panels = [(_stat if panel.kind == "stat" else _timeseries)(panel).id(next(ids)) for panel in row.panels]
        if number >= _OPEN_ROWS:
            for panel in panels:
                head = head.with_panel(panel)
            made = made.with_row(head)
            continue
        made = made.with_row(head)
        for panel in panels:
            made = made.with_panel(panel)
    return made


def _link(title: str, section: str) -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink(title)
        .type(DashboardLinkType.LINK)
        .url(f"{RUNBOOKS}#{section}")
        .target_blank(target_blank=True)
    )


def _found(name: str, title: str, label: str, *, of: str = "") -> dashboard.QueryVariable:
    """Return a variable of the label's values. All of them is also what has no such label."""
    return (
        dashboard.QueryVariable(name)
        .label(title)
        .datasource(SOURCE)
        .query(f"label_values(replication_throttle_build_info{of}, {label})")
        .all_value(".*")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
    )


def _timeseries(panel: Panel) -> timeseries.Panel:
    made = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.description)
        .datasource(SOURCE)
        .unit(panel.unit)
        .span(_WIDTH)
        .height(_HEIGHT)
        .line_width(1)
        .fill_opacity(8)
        .legend(
            VizLegendOptions()
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(show_legend=True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if not panel.may_be_negative:
        made = made.min(0)
    if panel.alert:
        made = made.links([_link("Runbook", panel.alert.lower())])
    for number, query in enumerate(panel.queries):
        made = made.with_target(_target(query, number))
    return made


def _stat(panel: Panel) -> stat.Panel:
    good_below = panel.unit not in BAD_WHEN_LOW
    steps = [Threshold(None, "green")] if good_below else [Threshold(None, "red"), Threshold(1, "green")]
    if good_below and panel.worries:
        steps.append(Threshold(1, "orange"))
    made = (
        stat.Panel()
        .title(panel.title)
        .description(panel.description)
        .datasource(SOURCE)
        .unit(panel.unit)
        .span(_STAT_WIDTH)
        .height(_STAT_HEIGHT)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    )
    for number, query in enumerate(panel.queries):
        made = made.with_target(_target(query, number).instant())
    return made


def _target(query: Query, number: int) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .datasource(SOURCE)
        .expr(query.expression)
        .legend_format(query.legend)
        .ref_id(chr(ord("A") + number))
    )
