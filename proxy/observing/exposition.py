"""All metrics, and their exposition in Prometheus' text format.

Each is a row: name, type, labels, help and where the value comes from, read at scrape time, from memory.
docs/metrics.md explains every row and a test compares the two. KIP-73's own names stay as they are, the others carry
the prefix. Knows the format, no socket and no metric by name. Invariant: `METRICS` is exposed, all of it and
nothing else (PartitionBytesInRate only where asked for, because it has a series per partition).
"""

from __future__ import annotations

from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.registry import Collector

from ..logs.terminal_text import printable
from ..statistics.counters import HOLD_BUCKETS_SECONDS, Histogram
from .client_metrics import CLIENT_METRICS
from .own_metrics import OVERLOAD_METRICS, OWN_METRICS, TLS_METRICS
from .quota_metrics import BOUND_METRICS, QUOTA_METRICS, RATE_METRICS
from .traffic_metrics import TRAFFIC_METRICS, partition_rates_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from prometheus_client import Metric as Family

    from .metric_row import Metric, Sample, Sources


_SAMPLES_A_STEP = 50
METRICS = (
    *TRAFFIC_METRICS,
    *QUOTA_METRICS,
    *RATE_METRICS,
    *BOUND_METRICS,
    *CLIENT_METRICS,
    *OVERLOAD_METRICS,
    *TLS_METRICS,
    *OWN_METRICS,
)


class Exposition:
    """Reads `sources` when it is scraped; holds no value of its own."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._platform = tuple(PlatformCollector(registry=None).collect())

    def encode(self, process: Iterable[Family] = ()) -> Generator[None, None, bytes]:
        """Return the exposition in Prometheus' text format 0.0.4.

        Yields after each family, and in a long one after every `_SAMPLES_A_STEP` samples: 0.3 ms at most. `process`:
        further families, about the process.
        """
        pieces = []
        for family in chain(self._platform, process):
            pieces.append(generate_latest(_One(family)))
            yield
        for metric in METRICS:
            if metric.read is not partition_rates_of or self._sources.partition_rates is not None:
                for part in _parts(metric, iter(metric.read(self._sources))):
                    # The head of a family stands once, in however many parts its samples are written.
                    piece = generate_latest(_One(part.family))
                    pieces.append(piece if part.is_first else _samples_of(piece))
                    yield
        return b"".join(pieces)


class _Part(NamedTuple):
    family: Family
    is_first: bool


def _parts(metric: Metric, samples: Iterator[Sample]) -> Iterator[_Part]:
    """Yield a family in parts of `_SAMPLES_A_STEP` samples; one without samples is exposed as well."""
    step = tuple(islice(samples, _SAMPLES_A_STEP))
    yield _Part(_family(metric, step), is_first=True)
    while step := tuple(islice(samples, _SAMPLES_A_STEP)):
        yield _Part(_family(metric, step), is_first=False)


def _samples_of(exposed: bytes) -> bytes:
    return b"".join(line for line in exposed.splitlines(keepends=True) if not line.startswith(b"# "))


class _One(Collector):
    """A collector of prometheus_client, for one family at a time."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> tuple[Family]:
        return (self._family,)


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
                histogram.add_metric(tuple(map(printable, values)), _cumulative(value), value.sum)
        return histogram
    family_type = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = family_type(metric.name, metric.help, labels=metric.labels)
    for values, value in samples:
        if not isinstance(value, Histogram):
            family.add_metric(tuple(map(printable, values)), value)
    return family


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(str, HOLD_BUCKETS_SECONDS), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
