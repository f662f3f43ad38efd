from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.ring import Cluster
from pipeline.commands.planning import scenarios
from pipeline.model.replay import WhatIf, demand, durations, flows_of, peaks, replay
from pipeline.model.simulation import Flow
from tests.pipeline.frames import ingested, traffic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MB = 1_000_000.0
LINE = 125 * MB


def test_the_demand_is_what_was_behind_and_what_was_written(spark: SparkSession) -> None:
    """Messages of 100 bytes: 500 behind at second 2, 3 more written in each of two seconds."""
    rows = [
        {"at": 0, "partition": 1, "in_sync": True, "fetch_offset": 9, "high_watermark": 9, "record_bytes": 0},
        *(
            {
                "at": at,
                "fetch_offset_before": 10 * (at - 2),
                "fetch_offset": 10 * (at - 1),
                "record_bytes": 1000,
                "high_watermark": 500 + 3 * (at - 2),
            }
            for at in (2, 3, 4)
        ),
    ]
    (flow,) = flows_of(demand(traffic(spark, rows)))
    assert (flow.source, flow.destination, flow.partitions, flow.starts) == ("101", "102", 1, 2.0)
    assert flow.backlog_bytes == pytest.approx(50_000)
    assert flow.arrivals == pytest.approx((0, 300, 300))


def test_what_was_behind_is_counted_from_the_first_high_watermark_that_is_known(spark: SparkSession) -> None:
    """Messages of 100 bytes: of a log of 900 when it is known, nothing was brought when it began."""
    rows = [
        {"at": at, "fetch_offset_before": before, "fetch_offset": before + 10, "high_watermark": watermark}
        for at, before, watermark in ((0, 0, -1), (1, 10, 900), (2, 20, -1), (3, 30, 905))
    ]
    known_before = {"at": -5, "in_sync": True, "fetch_offset": 0, "high_watermark": 700, "record_bytes": 0}
    for first in ([], [known_before]):
        (flow,) = flows_of(demand(traffic(spark, first + rows)))
        assert flow.backlog_bytes == pytest.approx(90_000)
        assert flow.arrivals == pytest.approx((0, 0, 0, 500))


def test_who_has_no_known_high_watermark_adds_nothing(spark: SparkSession) -> None:
    (flow,) = flows_of(demand(traffic(spark, [{"at": 0, "fetch_offset": 10, "high_watermark": -1}])))
    assert (flow.backlog_bytes, flow.arrivals) == (0.0, ())


def test_rates_that_differ_by_less_than_a_byte_are_scenarios_of_their_own() -> None:
    """As are all others; a rate that is given twice is one."""
    found = scenarios(["strict"], leaders=[0.0, 0.5, 0.25, 1e6, 1e6], both=[0.5])
    assert [(one.name, one.leader_bytes_per_second, one.follower_bytes_per_second) for one in found] == [
        ("leader 0 B/s", 0.0, None), ("leader 0.5 B/s", 0.5, None), ("leader 0.25 B/s", 0.25, None),
        ("leader 1000000 B/s", 1e6, None), ("both 0.5 B/s", 0.5, 0.5),
    ]  # fmt: skip


def test_a_recording_under_other_quotas(spark: SparkSession, tmp_path: Path) -> None:
    """What was recorded at 6 MB/s is 18 MB/s to go behind: what three quotas make of it."""
    cluster = Cluster(brokers=2, partitions=4, seconds=20, written_bytes_per_second=0)
    flows = flows_of(demand(ingested(spark, cluster, tmp_path).traffic))
    backlog = 2 * 3 * 20 * 6000 * 1000
    assert [flow.backlog_bytes for flow in flows] == pytest.approx([backlog] * 2)
    what_ifs = [WhatIf(f"{rate} MB/s", "strict", rate * MB, None) for rate in (6, 12, 24)]
    replayed = replay(spark, flows, what_ifs, line_bytes_per_second=LINE).cache()
    found = {(row.name, row.source): row.seconds for row in durations(replayed).collect()}
    for rate in (6, 12, 24):
        for source in ("101", "102"):
            assert found[f"{rate} MB/s", source] == pytest.approx(backlog / (rate * MB), rel=0.02)
    for row in peaks(replayed).collect():
        rate = float(row.name.split()[0]) * MB
        assert row.worst_second <= 1.3 * rate
        assert row.worst_eleven <= 1.05 * rate


def test_peaks_are_those_of_one_policy(spark: SparkSession) -> None:
    """Two policies under one quota have one name."""
    what_ifs = [WhatIf("1 MB/s", policy, MB, None) for policy in ("strict", "kip73")]
    replayed = replay(spark, [Flow("1", "2", 20 * MB)], what_ifs, line_bytes_per_second=LINE)
    found = {(row.policy, row.role): row for row in peaks(replayed).collect()}
    assert len(found) == 4
    for (policy, _), row in found.items():
        assert row.worst_eleven <= (1.05 if policy == "strict" else 1.3) * MB


def test_a_plan_without_any_recording(spark: SparkSession) -> None:
    flows = [Flow("1", "3", 20 * MB), Flow("2", "3", 20 * MB)]
    what_ifs = [WhatIf("bound", "strict", None, MB), WhatIf("never", "strict", 0.0, None)]
    found = durations(replay(spark, flows, what_ifs, line_bytes_per_second=LINE)).collect()
    assert [row.seconds for row in found if row.name == "bound"] == pytest.approx([40.0, 40.0], rel=0.02)
    assert [row.seconds for row in found if row.name == "never"] == [None, None]


def test_a_link_that_starts_weeks_after_the_first_has_caught_up_as_soon(spark: SparkSession) -> None:
    """Two moves of 20 messages of 1 MB, three weeks apart, replayed at 200 kB/s."""
    weeks = 21 * 86_400
    rows = [
        {"at": first + at, "peer": peer, "fetch_offset_before": 10 * at, "fetch_offset": 10 * (at + 1),
         "high_watermark": 20, "record_bytes": 10_000_000}
        for first, peer in ((0, "102"), (weeks, "103"))
        for at in (0, 1)
    ]  # fmt: skip
    flows = flows_of(demand(traffic(spark, rows)))
    assert [(flow.destination, flow.starts, flow.backlog_bytes) for flow in flows] == [
        ("102", 0.0, 20 * MB), ("103", float(weeks), 20 * MB)
    ]  # fmt: skip
    replayed = replay(spark, flows, [WhatIf("slow", "strict", 0.2 * MB, None)], line_bytes_per_second=LINE)
    found = {row.destination: row.seconds for row in durations(replayed).collect()}
    assert found == {"102": pytest.approx(100, rel=0.02), "103": pytest.approx(100, rel=0.02)}


def test_what_executors_import_needs_no_numpy() -> None:
    """docs/pipeline.md: executors have Python and nothing else."""
    modules = "pipeline.model.replay, pipeline.journals.decompress, pipeline.journals.read_files"
    hidden = f"import sys; sys.modules['numpy'] = None; import {modules}"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
