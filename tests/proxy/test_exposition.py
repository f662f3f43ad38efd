from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from proxy.exposition import Exposition
from proxy.metrics import METRICS, PartitionRate

from .test_metrics import OPENMETRICS, scrape, sources


def test_what_is_exposed_is_the_table() -> None:
    content, _ = Exposition(sources(partition_rates=[PartitionRate("a", 0, 1.0)])).encode("text/plain")
    exposed = {
        (family.name + ("_total" if family.type == "counter" else ""), family.documentation)
        for family in parse_text(content.decode())
    }
    assert exposed == {(metric.name, metric.help) for metric in METRICS}


def test_partitions_are_exposed_only_where_asked_for() -> None:
    key = ("PartitionBytesInRate", (("partition", "3"), ("topic", 'a"b')))
    assert scrape(sources(partition_rates=[PartitionRate('a"b', 3, 7.0)]))[key] == 7
    assert not any(name == "PartitionBytesInRate" for name, _ in scrape(sources()))


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (OPENMETRICS, "application/openmetrics-text; version=1.0.0"),
        ("text/plain", "text/plain; version=0.0.4"),
        ("", "application/openmetrics-text; version=1.0.0"),
        ("*/*", "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", "application/openmetrics-text"),
    ],
)
def test_the_format_is_negotiated(accept: str, content_type: str) -> None:
    content, found = Exposition(sources()).encode(accept)
    assert found.startswith(content_type)
    assert content.endswith(b"# EOF\n") == ("openmetrics" in content_type)
