"""What a scrape gets: the table of `metrics`, in Prometheus' text format or in OpenMetrics.

Knows the formats, no socket and no metric by name. Invariant: what is exposed is `METRICS`, all of it and nothing else
(PartitionBytesInRate only where asked for, because it has a series per partition).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from .metrics import METRICS, partition_rates_of
from .statistics import HOLD_BUCKETS_SECONDS, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric as Family

    from .metrics import Metric, Sample, Sources

_OPENMETRICS = "application/openmetrics-text"


class Exposition(Collector):
    """Reads `sources` when it is scraped; holds no value of its own."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            if metric.read is not partition_rates_of or self._sources.partition_rates is not None:
                yield _family(metric, metric.read(self._sources))

    def encode(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type: Prometheus' text format 0.0.4, or OpenMetrics if that is listed."""
        encoder, content_type = choose_encoder(_OPENMETRICS if _lists_openmetrics(accept) else "")
        return encoder(self), content_type


def _lists_openmetrics(accept: str) -> bool:
    """As prometheus_client chooses, whatever the order and the weights; but versions and escapings that are asked for
    are not looked at: it repeats them, and some of them make it raise."""
    return any(kind.partition(";")[0].strip() == _OPENMETRICS for kind in accept.split(","))


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    if metric.kind == "info":
        info = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
        for values, _ in samples:
            info.add_metric([], dict(zip(metric.labels, values, strict=True)))
        return info
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for values, value in samples:
            if isinstance(value, Histogram):
                histogram.add_metric(values, _cumulative(value), value.sum)
        return histogram
    family_type = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = family_type(metric.name, metric.help, labels=metric.labels)
    for values, value in samples:
        if not isinstance(value, Histogram):
            family.add_metric(values, value)
    return family


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(str, HOLD_BUCKETS_SECONDS), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
