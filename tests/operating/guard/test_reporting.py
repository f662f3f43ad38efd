"""What the guard writes for node_exporter: whole files in Prometheus' text format, as docs/metrics.md tells."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from operating.guard.probing import Proof
from operating.guard.reporting import write_metrics

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `(replication_throttle_guard_\w+)` \| (\w+) \| `broker`(?:, `state`)? \|", re.MULTILINE)


def test_what_is_written_is_what_is_documented(tmp_path: Path) -> None:
    proof = Proof(2, ("x",), ())
    write_metrics(tmp_path / "guard.prom", 2, 101, around=True, refused=False, proof=proof)
    families = list(text_string_to_metric_families((tmp_path / "guard.prom").read_text()))
    written = {sample.name: family.type for family in families for sample in family.samples}
    assert written == dict(_ROW.findall(DOCUMENT.read_text()))
    assert {sample.labels["broker"] for family in families for sample in family.samples} == {"101"}
    assert [path.name for path in tmp_path.iterdir()] == ["guard.prom"]


def test_ways_that_were_not_tried_yet_are_left_out(tmp_path: Path) -> None:
    write_metrics(tmp_path / "guard.prom", 2, 101, around=True, refused=False, proof=None)
    names = [family.name for family in text_string_to_metric_families((tmp_path / "guard.prom").read_text())]
    assert "replication_throttle_guard_around" in names
    assert "replication_throttle_guard_ways" not in names
