"""The rows of /metrics about keys and handshakes. Knows no exposition format.

Invariant: every reason of a leg is there from its start, since Prometheus' increase() sees no rise in a series that
begins with its first event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tls.failures import Reason
from .metric_row import PREFIX, Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .metric_row import Sample, Sources


def _failures(sources: Sources) -> Iterator[Sample]:
    for leg in sources.tls or ():
        for reason in Reason:
            yield (leg.name, reason.value), leg.failures[reason]


def _handshakes(sources: Sources) -> Iterator[Sample]:
    for leg in sources.tls or ():
        yield (leg.name,), leg.handshakes_done


def _expiry(sources: Sources) -> Iterator[Sample]:
    for leg in sources.tls or ():
        for what, expires in leg.loaded.expires.items():
            yield (leg.name, what), expires


def _reloads(sources: Sources) -> Iterator[Sample]:
    yield from () if sources.tls is None else sources.tls.reloads()


TLS_METRICS = (
    Metric(
        PREFIX + "tls_handshakes_total",
        "counter",
        ("leg",),
        "TLS handshakes that succeeded.",
        _handshakes,
    ),
    Metric(
        PREFIX + "tls_handshake_failures_total",
        "counter",
        ("leg", "reason"),
        "TLS handshakes that did not succeed, and with them their connection.",
        _failures,
    ),
    Metric(
        PREFIX + "certificate_expiry_timestamp_seconds",
        "gauge",
        ("leg", "store"),
        "When the first certificate of a leg's keystore or truststore ends.",
        _expiry,
    ),
    Metric(
        PREFIX + "tls_reloads_total",
        "counter",
        ("leg", "outcome"),
        "Times a leg's keys were read again because their files had changed.",
        _reloads,
    ),
)
