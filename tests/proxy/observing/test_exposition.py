from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from prometheus_client import ProcessCollector
from prometheus_client.parser import text_string_to_metric_families as parse_text

from proxy.diagnostics.role_rates import PartitionRate
from proxy.observing.exposition import METRICS, Exposition

from .test_metrics import exposed, scrape, sources

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_exposed_is_the_table() -> None:
    content = exposed(sources(partition_rates=[PartitionRate("a", 0, 1.0)]))
    found = {
        (family.name + ("_total" if family.type == "counter" else ""), family.documentation)
        for family in parse_text(content.decode())
        if family.name != "python_info"
    }
    assert found == {(metric.name, metric.help) for metric in METRICS}


def test_partitions_are_exposed_only_where_asked_for() -> None:
    key = ("PartitionBytesInRate", (("partition", "3"), ("role", "follower"), ("topic", 'a"b')))
    assert scrape(sources(partition_rates=[PartitionRate('a"b', 3, 7.0)]))[key] == 7
    assert not any(name == "PartitionBytesInRate" for name, _ in scrape(sources()))


def test_many_partitions_are_one_family_written_in_steps() -> None:
    rates = [PartitionRate("orders", number, float(number)) for number in range(1234)]
    steps = Exposition(sources(partition_rates=rates)).encode()
    count = 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as done:
        content = done.value
    assert count > 1234 / 50
    assert content.count(b"# HELP PartitionBytesInRate ") == content.count(b"# TYPE PartitionBytesInRate ") == 1
    (family,) = (each for each in parse_text(content.decode()) if each.name == "PartitionBytesInRate")
    assert [sample.value for sample in family.samples] == [rate.bytes_per_second for rate in rates]


def test_promtool_finds_no_fault_but_with_the_names_of_kip_73(tmp_path: Path) -> None:
    """They stay as Kafka's own brokers call them, so that their dashboards can be kept."""
    (tmp_path / "metrics").write_bytes(exposed(sources(), process=ProcessCollector(registry=None).collect()))
    with (tmp_path / "metrics").open("rb") as scraped:
        found = subprocess.run(["promtool", "check", "metrics"], stdin=scraped, capture_output=True, check=False)
    faults = found.stderr.decode().splitlines()
    assert {line.split()[0] for line in faults} == {
        "LeaderReplicationThrottledRate",
        "FollowerReplicationThrottledRate",
        "SumReplicaLag",
    }
    assert all(line.endswith("metric names should be written in 'snake_case' not 'camelCase'") for line in faults)
