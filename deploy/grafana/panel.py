"""A panel: its question, its unit, its expressions; and the labels that the dashboard's variables choose.

Data, no Grafana, no metric.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Unit = Literal["binBps", "bytes", "short", "ops", "s", "percentunit", "bool_yes_no", "reqps"]

CLUSTER = 'cluster=~"$cluster"'
ONE = f'{CLUSTER}, instance=~"$instance"'
ROLE = f'{ONE}, role=~"$role"'
PREFIX = "replication_throttle_"


class Query(NamedTuple):
    expression: str
    legend: str


class Panel(NamedTuple):
    """`worries`: a number of 1 and more is coloured (of a stat). `may_be_negative`: its axis does not begin at 0.
    `alert`: whose runbook it links to."""

    title: str
    unit: Unit
    description: str
    queries: tuple[Query, ...]
    kind: Literal["timeseries", "stat"] = "timeseries"
    worries: bool = True
    may_be_negative: bool = False
    alert: str = ""


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]
