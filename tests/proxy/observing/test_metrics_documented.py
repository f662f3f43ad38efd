"""docs/metrics.md against the table that is exposed."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import ProcessCollector

from proxy.observing.exposition import METRICS
from proxy.process.supervision import Task

from .test_metrics import exposed, sources

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \|(?: [^|]+ \|){2}$")


OF_THE_GUARD = "replication_throttle_guard_"


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = [row for line in DOCUMENT.read_text().splitlines() if (row := _ROW.match(line))]
    found = {row["name"]: (row["kind"], tuple(re.findall(r"`(\w+)`", row["labels"]))) for row in rows}
    assert len(found) == len(rows), "a metric is documented twice"
    return found


def test_every_metric_is_documented_with_its_type_and_labels() -> None:
    own = {name: facts for name, facts in documented().items() if not name.startswith(OF_THE_GUARD)}
    assert own == {metric.name: (metric.kind, metric.labels) for metric in METRICS}


def test_names_of_a_type_follow_the_convention() -> None:
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.name.endswith("_info") == (metric.kind == "info")


def test_what_is_told_of_the_process_is_documented() -> None:
    content = exposed(sources())
    named = set(re.findall(r"`((?:process|python)_\w+)", DOCUMENT.read_text()))
    told = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in ProcessCollector(registry=None).collect()
    }
    assert named == told | {"python_info"}
    assert b"\npython_info{" in content


def test_every_task_that_may_be_started_again_is_documented() -> None:
    lines = DOCUMENT.read_text().splitlines()
    (row,) = [line for line in lines if line.startswith("| `replication_throttle_task_restarts_total` |")]
    assert [task.value for task in Task if f"`{task.value}`" not in row] == []
