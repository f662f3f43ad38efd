"""The metrics, all of them: name, type, labels, help and where the value comes from, one row each; read at scrape time.

docs/metrics.md explains every row and a test compares the two. KIP-73's own names stay as they are, the
others carry the prefix. Knows no exposition format (`exposition`) and no socket. Invariant: reading a value answers at
once, from memory.
"""

from __future__ import annotations

from .metric_row import PREFIX, Metric, Sample, Sources
from .own_metrics import OVERLOAD_METRICS, OWN_METRICS, TLS_METRICS
from .quota_metrics import BOUND_METRICS, QUOTA_METRICS
from .rate_metrics import RATE_METRICS
from .traffic_metrics import TRAFFIC_METRICS, partition_rates_of

__all__ = ["METRICS", "PREFIX", "Metric", "Sample", "Sources", "partition_rates_of"]

METRICS = (
    *TRAFFIC_METRICS,
    *QUOTA_METRICS,
    *RATE_METRICS,
    *BOUND_METRICS,
    *OVERLOAD_METRICS,
    *TLS_METRICS,
    *OWN_METRICS,
)
