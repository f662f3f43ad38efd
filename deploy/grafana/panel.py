"""What a panel is: its question, its unit, its expressions; and the labels that the dashboard's variables choose.

Data, no Grafana, no metric.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Unit = Literal["binBps", "bytes", "short", "ops", "s", "percentunit", "bool_yes_no", "reqps"]

ONE = 'instance=~"$instance"'
ROLE = f'{ONE}, role=~"$role"'
PREFIX = "replication_throttle_"


class Query(NamedTuple):
    expression: str
    legend: str


class Panel(NamedTuple):
    title: str
    unit: Unit
    description: str
    queries: tuple[Query, ...]
    kind: Literal["timeseries", "stat"] = "timeseries"


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]
